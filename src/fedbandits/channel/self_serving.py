"""Agents that are their own server: alone, and acting on what they would release."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import calls, choose, learn, quiet, stands_for, untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wrapping import Wrapping
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.sharing import COLLECT, POOL, told
from fedbandits.models.statistics import Statistics


@quiet
class SelfServed(NamedTuple):
    """`SelfServing` agents for compiled loops."""

    inner: Any


@stands_for(choose, SelfServed)
@jit_inside
def _choose(agents: SelfServed, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return choose(agents.inner, i, arms, row, room)


@stands_for(learn, SelfServed)
@jit_inside
def _learn(agents: SelfServed, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    full = learn(agents.inner, i, arms, row, pick, reward, room)
    return full | calls(agents.inner, i)


class SelfServing(Wrapping):
    """`inner` agents, each of whom talks to itself: what it hands over is all that its own `pool` knows.

    With a noise stage around the inner agents, choices rest on an agent's own releases: joint privacy, where nobody but
    the person concerned learns of one observation from what others are offered. Nothing crosses a wire.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inner", "pool")

    def __init__(self, inner: Population, dim: int) -> None:
        super().__init__(inner)
        self.pool = Statistics(len(inner), dim)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """As the inner agents do; whoever would call a server is one."""
        self.inner.learn(who, arms, picks, rewards)
        self._serve()

    def compiled(self) -> Any:
        """See `Population`."""
        inner = self.inner.compiled() if untouched(self, SelfServing, "choose", "learn", "calling") else None
        return None if inner is None else SelfServed(inner)

    def tend(self) -> None:
        """As the inner agents do; and whoever would call a server is one."""
        self.inner.tend()
        self._serve()

    def _serve(self) -> None:
        callers = np.flatnonzero(self.inner.calling())
        if len(callers) == 0:
            return
        reply = self.inner.answer(Message(COLLECT.kind, callers))
        assert reply is not None
        self.pool.merge(callers, *told(reply))
        self.inner.answer(Message(POOL.kind, callers, self.pool.rows(callers, counted="count" in reply.arrays)))

    def calling(self) -> BoolArray:
        """Nobody else is called."""
        return Population.calling(self)

    def urgency(self) -> FloatArray | None:
        """Nobody else is called."""
        return None
