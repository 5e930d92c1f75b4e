"""The other end of the star."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from fedbandits.contract.arrays import IntArray, State
from fedbandits.contract.messages import Conversation
from fedbandits.contract.state import Stateful


class Server(Stateful):
    """Holds conversations with agents. What makes up its state is named by `keeps`; see `Stateful`."""

    retracts: ClassVar[bool] = False
    """Whether everything that is kept of agents follows from the sums of what they hand over, so that one that hands
    over minus all of it is out of what the server knows, but for rounding. What it tells of it, it tells at once."""

    @abstractmethod
    def converse(self, callers: IntArray) -> Conversation:
        """Given the floor after every step, with those who called (perhaps nobody): talk, or return."""
        raise NotImplementedError

    def portrait(self) -> State:
        """Named arrays for people to look at, as ``graph`` (n, n) and ``clusters`` (m, n); see `portrait`. Copies."""
        return {}
