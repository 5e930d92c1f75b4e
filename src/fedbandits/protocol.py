"""The contract: what an algorithm is, and what may pass between its agents and its server.

An algorithm is written once, for a *population* of n agents held as arrays with a leading axis n.
In a simulation n is everybody; inside one product n is 1. The server's side is a *conversation*: a
generator that yields requests and is resumed with the replies. Who carries them is decided
elsewhere (`carriers`, `deploy`), and whoever carries them counts them (`ledger`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from fedbandits.arrays import Array, BoolArray, FloatArray, IntArray, State

if TYPE_CHECKING:
    import networkx as nx

    from fedbandits.catalogue import About
    from fedbandits.linalg.links import LinkName
    from fedbandits.streams import Streams


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A batch of messages of one kind: row i of every array goes to, or comes from, agent `who[i]`.

    A request is addressed to `who`, a reply was sent by `who`; nothing but a kind and named arrays
    can cross the wire. A message without arrays is a signal ("send me your statistics").
    """

    kind: str
    who: IntArray
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if array.ndim == 0 or len(array) != len(self.who):
                raise ValueError(
                    f"array {name!r} of message {self.kind!r} needs one row for each of "
                    f"{len(self.who)} agents, got shape {array.shape}"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Inbox:
    """What a relay delivers in one round: letter e is row `row[e]` of `said`, handed to agent `to[e]`.

    `said` holds every distinct message once, however many agents receive it (where a network changes messages on their
    way, receivers may hold different ones of one origin and round); `said.who` are the origins and `born` (rows,) the
    rounds in which they spoke. Letters are sorted by receiver, and for each receiver newest first, then by origin.
    `to` and `row` may be shared between rounds: they cannot be written to.
    """

    said: Message
    born: IntArray
    to: IntArray
    row: IntArray


Conversation = Generator[Message, Message, None]
"""Yields requests; is resumed with a message whose `who` are those of the addressees who were reached, in request
order. It carries arrays if an answer was due and anybody was reached."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A bound on the tails of rewards X: E|X|^order <= raw and E|X - EX|^order <= central, with 1 < order <= 2."""

    order: float
    raw: float
    central: float


@dataclass(frozen=True, slots=True)
class Problem:
    """What an algorithm may know beforehand: sizes, noise level and bounds, never the answer."""

    agents: int
    dim: int
    arms: int
    horizon: int
    noise: float = 0.1
    """Sub-Gaussian constant of the reward noise."""
    bound: float = 1.0
    """Upper bound S on the norm of the unknown parameter."""
    arm_norm: float = 1.0
    """Upper bound on the norm of arms."""
    link: LinkName = "identity"
    """How the mean reward depends on <theta, x>."""
    shared: int | None = None
    """How many leading coordinates of the parameter all agents have in common (None: all of them)."""
    clusters: tuple[int, ...] | None = None
    """Which agents are alike, for oracles alone: everybody else has to find out."""
    moment: Moment | None = None
    """How heavy the tails of rewards are; None: sub-Gaussian, as `noise` says."""
    contamination: float = 0.0
    """The largest share of rewards, told by others or observed, that may be anything at all."""
    range: tuple[float, float] | None = None
    """The interval in which all rewards lie; None: no such bound is known."""
    network: nx.Graph[int] | None = None
    """Who can talk to whom, for algorithms without a server."""
    ttl: int = 1
    """How many hops a message lives on `network`."""


class Population(Protocol):
    """n agents that decide and learn. `who` (w,) are the agents awake in this step, each at most once."""

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """(w,), (w, K, d) -> (w,) index of the arm each agent takes. Exact ties: lowest index."""

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """Take in one observation for each agent in `who`."""

    def state(self) -> State:
        """Everything the population knows, as named arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Resume from a snapshot."""


class Agents(Population, Protocol):
    """A population that talks to a server."""

    def calling(self) -> BoolArray:
        """(n,) whose trigger has fired: who asks the server for a conversation."""

    def answer(self, request: Message) -> Message | None:
        """Do what `request` says to its addressees; None where there is nothing to send back."""


@runtime_checkable
class Peers(Population, Protocol):
    """A population whose agents talk to each other on a graph, over a relay."""

    def say(self, who: IntArray) -> Message | None:
        """What the agents in `who`, who have just learned, send to their neighbours."""

    def hear(self, inbox: Inbox) -> None:
        """Take in what the relay delivers at the end of the round."""


@runtime_checkable
class Urgent(Protocol):
    """A population whose agents call by a trigger."""

    def urgency(self) -> FloatArray:
        """(n,) how close each agent is to calling: 0 after a conversation, 1 where its trigger fires."""


@runtime_checkable
class Confident(Protocol):
    """A population with confidence ellipsoids: agent i believes that ||theta_i - centre_i||_{V_i} <= width_i."""

    def ellipsoids(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centres (n, d), matrices V (n, d, d) and widths (n,)."""


class Server(Protocol):
    """The other end of the star."""

    def converse(self, callers: IntArray) -> Conversation:
        """Given the floor after every step, with those who called (perhaps nobody): talk, or return."""

    def state(self) -> State:
        """Everything the server knows, as named arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Resume from a snapshot."""


@runtime_checkable
class Portrayed(Protocol):
    """A server or a population that can show people what it has found out."""

    def portrait(self) -> State:
        """Named arrays to look at, such as ``graph`` (n, n) and ``clusters`` (m, n); see `portrait`. Copies."""


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters with two factories, and an entry in the catalogue."""

    about: ClassVar[About]

    def agents(self, problem: Problem, n: int, rng: Streams) -> Agents | Peers:
        """n agents of `problem`, whose own random choices come from `rng` (one stream for each)."""

    def server(self, problem: Problem, n: int) -> Server | None:
        """Their server; None where agents talk to nobody, or to each other."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What theory says of the group regret at the horizon on one instance; `inf` and 0 where it says nothing."""

    upper: float
    lower: float


@runtime_checkable
class Bounded(Protocol):
    """An algorithm of whose regret theory says something on K arms with known means."""

    def bounds(self, problem: Problem, means: FloatArray) -> Bounds:
        """The theorems' expressions on the instance with the given `means` (K,)."""
