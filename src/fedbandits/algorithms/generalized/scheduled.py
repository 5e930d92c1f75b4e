"""Global updates by a schedule: B of them, as evenly as whole turns allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.algorithms.generalized.parameters import GLMParameters
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_part
from fedbandits.models.observations import Observations
from fedbandits.models.triggers import Watch, fires


@dataclass(frozen=True, slots=True)
class Spread:
    """`updates` (B) moments within `turns` (T): after turn ceil(T/B), ceil(2T/B), ..., T."""

    updates: int
    turns: int

    def fired(self, seen: IntArray, given: IntArray) -> BoolArray:
        """(n,) who has had such a moment by turn `seen` (n,), but not by turn `given` (n,)."""
        return np.asarray(self._past(seen) > self._past(given))

    def urgency(self, seen: IntArray, given: IntArray) -> FloatArray:
        """(n,) how much of the way to the next moment is behind each agent; at least 1 where it has come."""
        return np.asarray(seen * self.updates / self.turns - self._past(given))

    def _past(self, turns: IntArray) -> IntArray:
        return np.asarray(turns * self.updates // self.turns)


EVERY_TURN = Spread(1, 1)


class Pace(NamedTuple):
    """When agents call, for compiled loops: by a trigger where `turns` is 0, else by `Spread(updates, turns)`; `given`
    (n,) are the observations that the server has been told of.
    """

    watch: Watch
    updates: int
    turns: int
    given: IntArray


@jit_part
def is_due(pace: Pace, i: int, turns: int, seen: float, growth: float) -> bool:
    """Whether agent i calls, after so many own turns, of which it has `seen` since the last update, with the `growth`
    of its log-determinant since.
    """
    if pace.turns == 0:
        return fires(pace.watch, seen, growth)
    past: int = turns * pace.updates // pace.turns
    return bool(past > pace.given[i] * pace.updates // pace.turns)


@parameters
class Scheduled(GLMParameters):
    """`updates` global updates (B) within the horizon T, evenly spread: an agent calls once it has had T/B, 2T/B, ...
    own turns, unless an update has just taken in all that it has observed.

    That makes B of them where everybody acts in every step, and at most B where one agent at a time does. The
    publication counts interactions, so that B may exceed T; here every step is the most.
    """

    updates: Annotated[int, Field(ge=1)] = 100

    def spread(self, problem: Problem) -> Spread:
        """When agents call."""
        return Spread(min(self.updates, problem.horizon), problem.horizon)


class OnSchedule(Population):
    """Agents whose own turns decide when they call, and nothing that they have observed."""

    data: Observations
    _spread: Spread

    def calling(self) -> BoolArray:
        """Who has had enough turns."""
        return self._spread.fired(self.data.count, self.data.given)

    def urgency(self) -> FloatArray | None:
        """How far each agent's turns have come; see `Population`."""
        return self._spread.urgency(self.data.count, self.data.given)

    def pace(self) -> Pace | None:
        """When they call, for compiled loops; None where a subclass has changed that."""
        return (
            None
            if not untouched(self, OnSchedule, "calling")
            else Pace(_NEVER, self._spread.updates, self._spread.turns, self.data.given)
        )


_NEVER = Watch(-1, 0.0, False)
