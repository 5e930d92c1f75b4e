"""The trimmed mean of heavy-tailed samples, kept up online: as it is defined, and as its online version was printed."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import estimate_at, fits, lightest, put_sum, sum_at, take_in, weigh
from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.empirical import average_at
from fedbandits.algorithms.armed.estimators.heaps import full, pop, push
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, holds
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import stands_for
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside, jit_part

_SAFELY = 1 - 2.0**-50
"""Times this, a bound on weights holds however it was rounded."""


class Trimming(Estimator):
    """What both trimmed means have in common: a threshold that moves with the turn, past one sample after another.

    `settled` (n, K) sums the samples that count whatever happens; `waiting` holds those whose time has not come, in
    heaps ordered by the logarithm of their turn. Half-width 4 u^(1/p) (2 log t / n)^((p-1)/p), where E|X|^p <= u.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "settled", "waiting")

    def __init__(self, n: int, arms: int, order: float, raw: float, horizon: int, scale: float = 1.0) -> None:
        width = Rate(factor=4 * raw ** (1 / order), slope=2.0, exponent=1 - 1 / order)
        super().__init__(n, arms, width.scaled(scale))
        self._order, self._raw = order, raw
        self._end = float(np.log(horizon))
        self.settled = np.zeros((n, arms))
        self.waiting = Rows(n, arms)

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> Self:
        """For n agents of `problem`."""
        order, raw = parameters.tail_order(problem), parameters.raw_moment(problem)
        return cls(n, problem.arms, order, raw, problem.horizon, parameters.scale)

    def _extend(self, agent: int, arm: int) -> None:
        self.waiting.extend(agent, arm)

    def _reserve(self, samples: IntArray) -> bool:
        return self.waiting.reserve(2 * samples)


class TrimmedMean(Trimming):
    """(1/n) sum_i X_i 1{|X_i|^p <= u i / (2 log t)} over samples in order of arrival, where E|X|^p <= u.

    Dubey (2022), thesis, definition 4.2, at confidence 1 - 1/t^2 and with p = 1 + eps. Guarantee: off by more than the
    half-width with probability at most 1/t^2 (lemma 4.1, after Bubeck, Cesa-Bianchi & Lugosi 2013).

    The threshold falls with t, so samples only ever leave: sample i counts as long as log t <= u i / (2 |X_i|^p). Those
    that cannot leave before `Problem.horizon` T are settled at once; by Markov's inequality at most about
    2 log T (1 + log n) out of n are not. `held` (n, K) sums what waits, and is summed afresh when something leaves: no
    outlier lives on as a rounding error. Beyond the horizon the threshold stays what it was at the horizon.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Trimming.keeps, "held")

    def __init__(self, n: int, arms: int, order: float, raw: float, horizon: int, scale: float = 1.0) -> None:
        super().__init__(n, arms, order, raw, horizon, scale)
        self.held = np.zeros((n, arms))

    def _known(self) -> Trimmed:
        lists = self.waiting.lists
        return Trimmed(self.settled, self.held, self.counts, lists, self._order, 2 / self._raw, self._end)


class PrintedTrimmedMean(Trimming):
    """(1/n) sum_i X_i 1{|X_i|^p <= 2 u i log t} over samples in order of arrival, where E|X|^p <= u.

    The threshold of Dubey (2022), thesis, section 4.1.2 and algorithm 6, which contradicts definition 4.2: it is
    4 (log t)^2 times as high in |X|^p and rises with t, so samples only ever join, and nothing at all counts at t = 1.
    To reproduce what was printed; no guarantee, although the half-width is the same. Beyond `Problem.horizon` the
    threshold stays what it was at the horizon. `reached` (n,) is the logarithm of each agent's latest turn.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Trimming.keeps, "reached")

    def __init__(self, n: int, arms: int, order: float, raw: float, horizon: int, scale: float = 1.0) -> None:
        super().__init__(n, arms, order, raw, horizon, scale)
        self.reached = np.zeros(n)

    def _known(self) -> Joined:
        lists = self.waiting.lists
        return Joined(self.settled, self.reached, self.counts, lists, self._order, 0.5 / self._raw, self._end)


@jit_part
def _weight(reward: float, order: float, factor: float) -> float:
    return float(factor * abs(reward) ** order)


class Trimmed(NamedTuple):
    """`TrimmedMean` as kernels take it."""

    settled: FloatArray
    held: FloatArray
    counts: IntArray
    waiting: Lists
    order: float
    factor: float
    """The weight of a reward is factor |reward|^order."""
    end: float
    """The logarithm of the horizon."""


class Joined(NamedTuple):
    """`PrintedTrimmedMean` as kernels take it; see `Trimmed`."""

    settled: FloatArray
    reached: FloatArray
    counts: IntArray
    waiting: Lists
    order: float
    factor: float
    end: float


@stands_for(weigh, Trimmed)
@stands_for(weigh, Joined)
@jit_inside
def _weigh(known: Trimmed | Joined, reward: float) -> float:
    return _weight(reward, known.order, known.factor)


@stands_for(take_in, Trimmed)
@jit_inside
def _take_in(known: Trimmed, i: Index, k: Index, reward: float, weight: float) -> bool:
    place = known.counts[i, k] + 1
    # it leaves when log t exceeds place / weight
    if place >= weight * known.end:
        known.settled[i, k] += reward
    else:
        if full(known.waiting, i, k):
            return False
        push(known.waiting, i, k, place / weight, reward)
        known.held[i, k] += reward
    known.counts[i, k] = place
    return True


@stands_for(lightest, Trimmed)
@jit_inside
def _settles(known: Trimmed, i: int, k: int) -> float:
    return float((known.counts[i, k] + 1) / known.end * _SAFELY)


@stands_for(sum_at, Trimmed)
@stands_for(sum_at, Joined)
@jit_inside
def _settled_at(known: Trimmed | Joined, i: int, k: int) -> float:
    return float(known.settled[i, k])


@stands_for(put_sum, Trimmed)
@stands_for(put_sum, Joined)
@jit_inside
def _settle(known: Trimmed | Joined, i: int, k: int, total: float, samples: int) -> None:
    known.settled[i, k] = total
    known.counts[i, k] += samples


@stands_for(fits, Trimmed)
@stands_for(fits, Joined)
@jit_inside
def _fits(known: Trimmed | Joined, i: int, k: int, samples: int) -> bool:
    return holds(known.waiting, i, k, 2 * samples)


@stands_for(estimate_at, Trimmed)
@jit_inside
def _estimate_at(known: Trimmed, i: int, k: int, now: float) -> float:
    waiting = known.waiting
    front, before = waiting.starts[i, k], waiting.lengths[i, k]
    while waiting.lengths[i, k] > 0 and now > waiting.cells[front]:
        pop(waiting, i, k)
    if waiting.lengths[i, k] < before:
        known.held[i, k] = _total(waiting, i, k)
    if known.counts[i, k] == 0:
        return 0.0
    return float((known.settled[i, k] + known.held[i, k]) / known.counts[i, k])


@jit_part
def _total(waiting: Lists, i: int, k: int) -> float:
    total = 0.0
    for j in range(1, waiting.lengths[i, k], 2):
        total += waiting.cells[waiting.starts[i, k] + j]
    return total


@stands_for(take_in, Joined)
@jit_inside
def _let_wait(known: Joined, i: Index, k: Index, reward: float, weight: float) -> bool:
    place = known.counts[i, k] + 1
    # it joins as soon as log t reaches weight / place
    due = weight / place
    if due <= known.reached[i]:
        known.settled[i, k] += reward
    elif due <= known.end:
        if full(known.waiting, i, k):
            return False
        push(known.waiting, i, k, due, reward)
    known.counts[i, k] = place
    return True


@stands_for(lightest, Joined)
@jit_inside
def _joins(known: Joined, i: int, k: int) -> float:
    return float((known.counts[i, k] + 1) * known.reached[i] * _SAFELY)


@stands_for(estimate_at, Joined)
@jit_inside
def _let_join(known: Joined, i: int, k: int, now: float) -> float:
    waiting = known.waiting
    known.reached[i] = min(now, known.end)
    front = waiting.starts[i, k]
    while waiting.lengths[i, k] > 0 and waiting.cells[front] <= known.reached[i]:
        known.settled[i, k] += waiting.cells[front + 1]
        pop(waiting, i, k)
    return average_at(known.settled, known.counts, i, k)
