"""The trimmed mean of heavy-tailed samples, kept up online: as it is defined, and as its online version was printed."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.empirical import averages
from fedbandits.algorithms.armed.estimators.heaps import full, pop, push
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, take_all
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit


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

    def estimates(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) sums of what has not left, over the numbers of all samples."""
        return _what_is_left(self.settled, self.held, self.counts, self.waiting.lists, who, turns)

    def _gather(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        weights = _weights(rewards, self._order, 2 / self._raw)

        def take(first: int) -> int:
            sums = (self.settled, self.held, self.counts)
            return _keep_while_allowed(*sums, self.waiting.lists, to, row, arms, rewards, weights, self._end, first)

        take_all(to, row, arms, take, self.waiting)


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

    def estimates(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) sums of what has joined, over the numbers of all samples."""
        _let_join(self.settled, self.reached, self.waiting.lists, who, turns, self._end)
        return averages(self.settled, self.counts, who)

    def _gather(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        weights = _weights(rewards, self._order, 0.5 / self._raw)

        def take(first: int) -> int:
            sums = (self.settled, self.reached, self.counts)
            return _keep_once_allowed(*sums, self.waiting.lists, to, row, arms, rewards, weights, self._end, first)

        take_all(to, row, arms, take, self.waiting)


@jit
def _weights(rewards: FloatArray, order: float, factor: float) -> FloatArray:
    out = np.empty(len(rewards))
    for r in range(len(rewards)):
        out[r] = factor * abs(rewards[r]) ** order
    return out


@jit
def _keep_while_allowed(
    settled: FloatArray,
    held: FloatArray,
    counts: IntArray,
    waiting: Lists,
    to: IntArray,
    row: IntArray,
    arms: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    end: float,
    first: int,
) -> int:
    for e in range(first, len(to)):
        r = np.uint64(row[e])
        i, k = np.uint64(to[e]), np.uint64(arms[r])
        place = counts[i, k] + 1
        # it leaves when log t exceeds place / weight
        if place >= weights[r] * end:
            settled[i, k] += rewards[r]
        else:
            if full(waiting, to[e], arms[r]):
                return e
            push(waiting, to[e], arms[r], place / weights[r], rewards[r])
            held[i, k] += rewards[r]
        counts[i, k] = place
    return len(to)


@jit
def _what_is_left(
    settled: FloatArray, held: FloatArray, counts: IntArray, waiting: Lists, who: IntArray, turns: IntArray
) -> FloatArray:
    out = np.zeros((len(who), counts.shape[1]))
    for a in range(len(who)):
        i = who[a]
        now = np.log(turns[a])
        for k in range(counts.shape[1]):
            front, before = waiting.starts[i, k], waiting.lengths[i, k]
            while waiting.lengths[i, k] > 0 and now > waiting.cells[front]:
                pop(waiting, i, k)
            if waiting.lengths[i, k] < before:
                total = 0.0
                for j in range(1, waiting.lengths[i, k], 2):
                    total += waiting.cells[front + j]
                held[i, k] = total
            if counts[i, k] > 0:
                out[a, k] = (settled[i, k] + held[i, k]) / counts[i, k]
    return out


@jit
def _keep_once_allowed(
    settled: FloatArray,
    reached: FloatArray,
    counts: IntArray,
    waiting: Lists,
    to: IntArray,
    row: IntArray,
    arms: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    end: float,
    first: int,
) -> int:
    for e in range(first, len(to)):
        r = np.uint64(row[e])
        i, k = np.uint64(to[e]), np.uint64(arms[r])
        place = counts[i, k] + 1
        # it joins as soon as log t reaches weight / place
        due = weights[r] / place
        if due <= reached[i]:
            settled[i, k] += rewards[r]
        elif due <= end:
            if full(waiting, to[e], arms[r]):
                return e
            push(waiting, to[e], arms[r], due, rewards[r])
        counts[i, k] = place
    return len(to)


@jit
def _let_join(
    settled: FloatArray,
    reached: FloatArray,
    waiting: Lists,
    who: IntArray,
    turns: IntArray,
    end: float,
) -> None:
    for a in range(len(who)):
        i = who[a]
        reached[i] = min(np.log(turns[a]), end)
        for k in range(settled.shape[1]):
            front = waiting.starts[i, k]
            while waiting.lengths[i, k] > 0 and waiting.cells[front] <= reached[i]:
                settled[i, k] += waiting.cells[front + 1]
                pop(waiting, i, k)
