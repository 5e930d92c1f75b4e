"""What an estimator is: the means of K arms as n agents know them, and how far they may be off."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import Known, estimate_at, take_in, weigh
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit, jit_part

_NO_SUCH_AGENT, _NO_SUCH_ROW, _NO_SUCH_ARM, _NOT_FINITE = 1, 2, 3, 4


class Rate(NamedTuple):
    """How the half-width of a confidence interval falls: offset + factor ((base + slope log t) / n)^exponent.

    t is the turn, n the number of samples; the interval is meant to hold with probability 1 - 1/t^2.
    """

    factor: float
    slope: float
    exponent: float = 0.5
    base: float = 0.0
    offset: float = 0.0

    def scaled(self, by: float) -> Rate:
        """All of it `by` times as wide."""
        return Rate(self.factor * by, self.slope, self.exponent, self.base, self.offset * by)


class Estimator(Stateful):
    """Means of K arms as n agents know them, from samples that arrive one by one, and how far they may be off.

    `counts` (n, K) says how many samples each agent has of each arm. Results for an agent are the same to the last bit
    whether it lives in a population or alone. Subclasses hand over the arrays that they are made up of (`_known`), in a
    named tuple for which functions of `estimators.compiled` stand: these take samples in and say what becomes of them.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts",)

    def __init__(self, n: int, arms: int, rate: Rate) -> None:
        self.counts = np.zeros((n, arms), dtype=np.int64)
        self._rate = Rate(*map(float, rate))

    def gather(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        """Sample e is reward `rewards[row[e]]` of arm `arms[row[e]]`, for agent `to[e]`.

        An agent may get many at once: they count in the order given. Its own pulls are `to` = who, `row` = 0..w-1.
        """
        fault = _fault(to, row, arms, rewards, *self.counts.shape)
        if fault:
            raise ValueError(_complaint(fault, to, row, arms, rewards, *self.counts.shape))
        weights = _weights(self._known(), rewards)
        done = 0
        while (done := _take_all(self._known(), to, row, arms, rewards, weights, done)) < len(to):
            self._extend(int(to[done]), int(arms[row[done]]))

    def estimates(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w,) agents in their turns (w,), counted from 1 -> (w, K) estimates at confidence 1 - 1/t^2.

        0 where there is no sample. The turns of an agent must never fall from one call to the next.
        """
        return _estimates(self._known(), who, turns, self.counts.shape[1])

    def compiled(self, samples: IntArray) -> Known | None:
        """The arrays it is made up of, by reference, with room for so many more `samples` (n,) of every arm; None where
        that is too much.
        """
        return self._known() if self._reserve(samples) else None

    @property
    def rate(self) -> Rate:
        """How half-widths fall."""
        return self._rate

    def widths(self, counts: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) sample counts and (w,) turns -> (w, K) half-widths; infinite where the count is 0."""
        rate = self._rate
        return _widths(counts, turns, rate.offset, rate.factor, rate.base, rate.slope, rate.exponent)

    def _known(self) -> Known:
        """The arrays it is made up of, by reference; valid until there is more room in them."""
        raise NotImplementedError

    def _extend(self, agent: int, arm: int) -> None:
        """Make room for another sample."""
        raise NotImplementedError

    def _reserve(self, samples: IntArray) -> bool:
        """Make room for so many more `samples` (n,) of every arm, unless there is some; whether that was done."""
        return True


@jit
def _weights(known: Known, rewards: FloatArray) -> FloatArray:
    out = np.empty(len(rewards))
    for r in range(len(rewards)):
        out[r] = weigh(known, rewards[r])
    return out


@jit
def _take_all(
    known: Known, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray, weights: FloatArray, first: int
) -> int:
    """Take in samples `first`, `first` + 1, ...; returns the first that finds no room, or their number."""
    for e in range(first, len(to)):
        r = np.uint64(row[e])
        if not take_in(known, np.uint64(to[e]), np.uint64(arms[r]), rewards[r], weights[r]):
            return e
    return len(to)


@jit
def _estimates(known: Known, who: IntArray, turns: IntArray, arms: int) -> FloatArray:
    out = np.empty((len(who), arms))
    for a in range(len(who)):
        now = np.log(turns[a])
        for k in range(arms):
            out[a, k] = estimate_at(known, who[a], k, now)
    return out


@jit_part
def demand_at(turn: int, base: float, slope: float) -> float:
    """What a `Rate` asks for in a turn: base + slope log t."""
    return float(base + slope * np.log(turn))


@jit_part
def width_at(count: int, demand: float, offset: float, factor: float, exponent: float) -> float:
    """A `Rate`'s half-width for so many samples; infinite for none."""
    if count == 0:
        return np.inf
    if exponent == 0.5:
        return float(offset + factor * np.sqrt(demand / count))
    return float(offset + factor * (demand / count) ** exponent)


@jit
def _widths(
    counts: IntArray, turns: IntArray, offset: float, factor: float, base: float, slope: float, exponent: float
) -> FloatArray:
    out = np.empty(counts.shape)
    for a in range(counts.shape[0]):
        demand = demand_at(turns[a], base, slope)
        for k in range(counts.shape[1]):
            out[a, k] = width_at(counts[a, k], demand, offset, factor, exponent)
    return out


@jit
def _fault(to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray, n: int, count: int) -> int:
    if _any_outside(to, n):
        return _NO_SUCH_AGENT
    if _any_outside(row, len(rewards)):
        return _NO_SUCH_ROW
    if _any_outside(arms, count):
        return _NO_SUCH_ARM
    for x in rewards:
        if not abs(x) < np.inf:
            return _NOT_FINITE
    return 0


@jit_part
def _any_outside(indices: IntArray, end: int) -> bool:
    # i | (last - i) is negative just where i is outside 0..last; without a branch the loop becomes SIMD
    last = end - 1
    signs = 0
    for e in range(len(indices)):
        signs |= indices[e] | (last - indices[e])
    return signs < 0


def _complaint(fault: int, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray, n: int, count: int) -> str:
    if fault == _NO_SUCH_AGENT:
        return f"samples for agents outside 0..{n - 1}: {to.min()}..{to.max()}"
    if fault == _NO_SUCH_ROW:
        return f"samples from rows outside 0..{len(rewards) - 1}: {row.min()}..{row.max()}"
    if fault == _NO_SUCH_ARM:
        return f"samples of arms outside 0..{count - 1}: {arms.min()}..{arms.max()}"
    return f"rewards {rewards[~np.isfinite(rewards)][:5].tolist()} are not finite"
