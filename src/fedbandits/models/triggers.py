"""When agents call: a level that grows with what they observe, held against a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.linalg.jit import jit, jit_part

Level = Callable[[FloatArray, FloatArray], FloatArray]
"""Observations since the last update (n,) and growth of the log-determinant since then (n,) -> levels (n,)."""


def observed(count: FloatArray, growth: FloatArray) -> FloatArray:
    """The number of observations: a schedule, which no reward can change."""
    return count


def grown(count: FloatArray, growth: FloatArray) -> FloatArray:
    """The growth of the log-determinant."""
    return growth


def both(count: FloatArray, growth: FloatArray) -> FloatArray:
    """Observations times growth."""
    return count * growth


_CODES: dict[Level, int] = {observed: 0, grown: 1, both: 2}


def code_of(level: Level) -> int | None:
    """The number by which `level_at` knows a level; None if it does not."""
    return _CODES.get(level)


@jit_part
def level_at(code: int, count: float, growth: float) -> float:
    """The level of one agent."""
    return count if code == 0 else growth if code == 1 else count * growth


class Watch(NamedTuple):
    """A trigger as compiled loops take it; `code` is -1 where it never fires."""

    code: int
    threshold: float
    strict: bool


@jit_part
def fires(watch: Watch, count: float, growth: float) -> bool:
    """Whether a trigger fires for one agent."""
    if watch.code < 0 or not count > 0.0:
        return False
    level = level_at(watch.code, count, growth)
    return level > watch.threshold if watch.strict else level >= watch.threshold


@jit
def _fired(watch: Watch, count: FloatArray, growth: FloatArray) -> BoolArray:
    out = np.empty(len(count), np.bool_)
    for i in range(len(count)):
        out[i] = fires(watch, count[i], growth[i])
    return out


def watch_of(trigger: Trigger | None) -> Watch | None:
    """`trigger` for compiled loops; None where its level is unknown to them."""
    if trigger is None:
        return Watch(-1, 0.0, False)
    code = code_of(trigger.level)
    return None if code is None else Watch(code, float(trigger.threshold), trigger.strict)


def urgencies(level: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """(n,) levels as multiples of their thresholds, which may be infinite (never reached) or 0 (by anything above)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(level / threshold, nan=0.0, posinf=np.inf)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fires for agents that have observed something since the last update and whose level has reached `threshold`, or,
    where it is `strict`, exceeded it.
    """

    level: Level
    threshold: float
    strict: bool = False

    def fired(self, count: FloatArray, growth: FloatArray) -> BoolArray:
        """(n,) for whom it fires."""
        watch = watch_of(self)
        if watch is not None:
            return _fired(watch, count, growth)
        level = self.level(count, growth)
        reached: BoolArray = level > self.threshold if self.strict else level >= self.threshold
        return reached & (count > 0)

    def urgency(self, count: FloatArray, growth: FloatArray) -> FloatArray:
        """(n,) how far it has come; 1 where it fires."""
        return urgencies(self.level(count, growth), self.threshold)


ALWAYS = Trigger(observed, 1.0)
"""After every observation."""
