"""The other end of the star."""

from __future__ import annotations

import sys
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar

from fedbandits.contract.arrays import IntArray, State
from fedbandits.contract.booking import Speech
from fedbandits.contract.messages import Conversation
from fedbandits.contract.state import Stateful


class Server(Stateful):
    """Holds conversations with agents. What makes up its state is named by `keeps`; see `Stateful`."""

    retracts: ClassVar[bool] = False
    """Whether everything that is kept of agents follows from the sums of what they hand over, so that one that hands
    over minus all of it is out of what the server knows, but for rounding. What it tells of it, it tells at once."""

    waits: ClassVar[bool] = False
    """Whether it does nothing at all as long as nobody calls."""

    pursues: ClassVar[bool] = False
    """Whether nobody stands between it and whoever carries what it says, so that a course that it opens (`Opening`) may
    be played to its end."""

    @abstractmethod
    def converse(self, callers: IntArray) -> Conversation:
        """Given the floor after every step, with those who called (perhaps nobody): talk, or return."""
        raise NotImplementedError

    def patience(self) -> int:
        """For how many of the next steps it need not be given the floor, unless somebody calls, since it would say
        nothing; `passed` tells it how many there were. See `patience_of`.
        """
        return sys.maxsize if self.waits else 0

    def passed(self, steps: int) -> None:
        """`steps` steps are over, in which nobody called and nobody was given the floor."""

    def compiled(self, answering: Any) -> Any:
        """The arrays this server and agents that answer like that (`Population.answering`) are made up of, in a named
        tuple for which compiled functions stand (`contract.compiled.hear`), or None. What is said then is `speech`.
        Asked for again whenever anything but those functions may have changed either.
        """
        return None

    def tend(self) -> None:
        """Do what compiled functions leave to be done after steps in which they gave it the floor."""

    speech: ClassVar[Speech] = ()
    """The messages of conversations that are compiled."""

    def portrait(self) -> State:
        """Named arrays for people to look at, as ``graph`` (n, n) and ``clusters`` (m, n); see `portrait`. Copies."""
        return {}


def patience_of(server: Server) -> int:
    """`server.patience()`, unless a subclass has changed `converse` and has not said again how it is to be read."""
    return server.patience() if _says_again(type(server)) else 0  # type: ignore[arg-type]


@cache
def _says_again(kind: type) -> bool:
    order = kind.__mro__
    said = min(order.index(cls) for cls in order if {"patience", "waits"} & vars(cls).keys())
    done = min(order.index(cls) for cls in order if "converse" in vars(cls))
    return said <= done
