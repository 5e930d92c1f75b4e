"""Populations of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, State
from fedbandits.contract.messages import Inbox, Message


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


@runtime_checkable
class Portrayed(Protocol):
    """A server or a population that can show people what it has found out."""

    def portrait(self) -> State:
        """Named arrays to look at, such as ``graph`` (n, n) and ``clusters`` (m, n); see `portrait`. Copies."""
