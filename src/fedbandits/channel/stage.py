"""Stages: what may happen to messages between an algorithm and the wire, as a value and not as a variant of algorithms.

A stage has two ends, one with the agents and one with the server, made together so that they cannot be paired wrongly.
It rewrites what the algorithm declares to say, refusing what it cannot serve, and tells the problem what it may do to
sums. `Through` puts stages around an algorithm.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol

from fedbandits.channel.pace import Pace, unhurried
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.catalogue import About, AboutStage
from fedbandits.contract.compiled import untouched
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction, Utterance

Observed = tuple[FloatArray, IntArray, FloatArray]
SPOKEN_FOR = ("observing", "calling")
"""What compiled loops do in place of an end (`End.pace`)."""


class End(Stateful):
    """One end of a stage. What it remembers is named by `keeps`, rows by agent, and saved with its side.

    At the agents' side `outgoing` and `incoming` may not depend on which other agents a message holds, to the last bit.
    A server's end sees what all of them say, and may make of one row what others tell it (`AboutStage.rows`).

    What is not about messages concerns the agents' side alone: what they learn, when they call, what they may act on.
    """

    blind: bool = False
    """Whether agents may act on what they are told alone, and not on what they have observed themselves."""
    passes: bool = False
    """Whether a server hears what is sent as it was sent: what it knows then follows from that as without the stage."""

    @abstractmethod
    def outgoing(self, message: Message) -> Message:
        """What is sent in place of `message`, which leaves this side."""
        raise NotImplementedError

    @abstractmethod
    def incoming(self, message: Message) -> Message:
        """What is heard in place of `message`, which arrives at this side."""
        raise NotImplementedError

    def returned(self, message: Message) -> Message | None:
        """What this side gets back in place of `message`, which has left it and was not taken in: what the other side
        would have heard. The same message, unless the stage changes what is said; None where the stage keeps it, and
        sends it again itself.
        """
        return message

    def reached(self, who: IntArray) -> None:
        """The last `outgoing` message has reached `who`; to the others it was never sent."""

    def attributed(self, who: IntArray, persons: IntArray) -> None:
        """The next observation of each of `who` is about a person, `persons` (w,) being numbers that stand for them."""

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """What agents learn in place of an observation: arms (w, K, d), picks (w,) and rewards (w,)."""
        return arms, picks, rewards

    def calling(self, would: BoolArray) -> BoolArray:
        """(n,) who calls, where without the stage those who `would` do."""
        return would

    def urgency(self, would: FloatArray | None) -> FloatArray | None:
        """(n,) how close each agent is to calling, `would` being how close without the stage."""
        return would

    def pace(self, n: int, dim: int) -> Pace | None:
        """What `observing` and `calling` do to n agents with arms of dimension `dim`, for compiled loops; None where
        those cannot do it.
        """
        return unhurried(n, dim) if untouched(self, End, *SPOKEN_FOR) else None

    def protection(self) -> Protection | None:
        """What the stage protects, and what that has cost so far; None where it protects nothing."""
        return None

    def portrait(self) -> State:
        """Named arrays for people to look at; see `Population`."""
        return {}


class Stage(Protocol):
    """A frozen dataclass of parameters (`contract.parameters`) with an entry in the catalogue, `about`."""

    @property
    def about(self) -> AboutStage:
        """Its entry in the catalogue; a class attribute."""

    def declares(self, about: About) -> About:
        """What an algorithm that is `about` this says through the stage, and which guarantee is left; raises
        `ConfigError` where the stage cannot serve it.
        """

    def poses(self, problem: Problem) -> Problem:
        """The problem as the algorithm should see it: with what the stage may do to sums."""

    def ends(
        self,
        says: tuple[Utterance, ...],
        away: Direction,
        n: int,
        sizes: Mapping[str, int],
        rng: Streams,
        problem: Problem,
    ) -> End:
        """The end whose messages leave in the direction `away`: "up" for n agents, "down" for a server of n agents.

        `says` are the utterances before the stage has rewritten them, `sizes` the lengths that their shapes name,
        `rng` is the stage's own, one stream for each agent or one for the server, and `problem` is as the stage and the
        algorithm pose it.
        """


def check_star(stage: str, about: About, serves: str) -> None:
    """Raise `ConfigError` unless an algorithm that is `about` this talks to a server; `serves` says whom `stage` can
    serve in its place.
    """
    if about.topology != "star":
        whom = "its peers" if about.topology == "graph" else "nobody"
        raise ConfigError(f"{stage}: {about.name} talks to {whom}; it serves {serves}")
