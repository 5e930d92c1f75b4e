"""The shortest-interval mean, for samples of which a share may be anything at all."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import estimate_at, fits, take_in, weightless
from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, append, holds, listed
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import stands_for
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit, jit_inside, jit_part


class ShortestIntervalMean(Estimator):
    """One half of the samples finds an interval, the mean of the other half inside it is the estimate.

    Odd arrivals are X, even ones Y, N = floor(n/2) of each. With delta = 1/t^2 and alpha = max(eps, log(1/delta) / N),
    Z is the shortest interval that holds ceil(h) of the Y, the leftmost if there are several, where

        h = N (1 - 2 alpha - sqrt(2 alpha log(4/delta) / N) - log(4/delta) / N),

    and the estimate is the mean of the X in Z. Dubey (2022), thesis, definition 5.1, after Prasad, Balakrishnan &
    Ravikumar (2019); the printed indices are mixed up. Unless Z holds most of the Y (2 ceil(h) > N) and some X, the
    estimate is the median of all samples: an interval of few points may be one of outliers that happen to be equal.
    With eps near 0, Z is used from some 85 pairs on in turn 100 and 125 in turn 1000; with eps >= 1/4, never.
    On rewards of few values, such as 0 and 1, both are coarse: a value that most samples have becomes the estimate.

    Half-width sigma sqrt(eps) + sigma sqrt(2 log t / n), where sigma^2 bounds the variance: algorithm 7, with sigma^2
    for sigma in the second root, as units demand (theorem 5.1 also prints eps for sqrt(eps)). No guarantee: Prasad et
    al. have this rate up to constants, and as it stands it is too narrow. The X are only n/2 samples, and outliers near
    the edge of Z, or rewards that are not symmetric, cost more than sigma sqrt(eps). `scale` = 2.5 has been enough for
    all of that in measurements with 20 samples and more. With fewer, half of them may be outliers.

    All samples are kept, 8 bytes each, in `xs` and `ys`; the first `sorted` (n, K) of both are sorted, and new ones are
    merged in at the next estimate. An estimate costs O(n) additions and comparisons.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "xs", "ys", "sorted")

    def __init__(self, n: int, arms: int, deviation: float, contamination: float, scale: float = 1.0) -> None:
        rate = Rate(factor=deviation, slope=2.0, offset=deviation * contamination**0.5)
        super().__init__(n, arms, rate.scaled(scale))
        self._contamination = contamination
        self.xs, self.ys = Rows(n, arms), Rows(n, arms)
        self.sorted = np.zeros((n, arms), dtype=np.int64)

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> ShortestIntervalMean:
        """For n agents of `problem`."""
        deviation = parameters.variance(problem) ** 0.5
        return cls(n, problem.arms, deviation, parameters.contaminated(problem), parameters.scale)

    def _known(self) -> Halves:
        return Halves(self.counts, self.xs.lists, self.ys.lists, self.sorted, self._contamination)

    def _extend(self, agent: int, arm: int) -> None:
        self.xs.extend(agent, arm)
        self.ys.extend(agent, arm)

    def _reserve(self, samples: IntArray) -> bool:
        return self.xs.reserve(samples) and self.ys.reserve(samples)


@weightless
class Halves(NamedTuple):
    """`ShortestIntervalMean` as kernels take it."""

    counts: IntArray
    xs: Lists
    ys: Lists
    sorted: IntArray
    contamination: float


@stands_for(take_in, Halves)
@jit_inside
def _take_in(known: Halves, i: Index, k: Index, reward: float, weight: float) -> bool:
    pile = known.xs if known.xs.lengths[i, k] == known.ys.lengths[i, k] else known.ys
    if not holds(pile, i, k, 1):
        return False
    # adding 0 makes -0 a 0: equal numbers then look alike, in whatever order they are merged
    append(pile, i, k, reward + 0.0)
    known.counts[i, k] += 1
    return True


@stands_for(fits, Halves)
@jit_inside
def _fits(known: Halves, i: int, k: int, samples: int) -> bool:
    return holds(known.xs, i, k, samples) and holds(known.ys, i, k, samples)


@stands_for(estimate_at, Halves)
@jit_inside
def _estimate_at(known: Halves, i: int, k: int, now: float) -> float:
    pairs = known.ys.lengths[i, k]
    _sort(known.xs, i, k, known.sorted[i, k], pairs)
    _sort(known.ys, i, k, known.sorted[i, k], pairs)
    known.sorted[i, k] = pairs
    return _mean(listed(known.xs, i, k), listed(known.ys, i, k), 2 * now, known.contamination)


@jit_part
def _sort(lists: Lists, i: int, k: int, done: int, pairs: int) -> None:
    """Sort the first `pairs` numbers of a list of which the first `done` are sorted."""
    if done == pairs:
        return
    cells, start = lists.cells, lists.starts[i, k]
    old, end = start + done, start + pairs
    new = np.sort(cells[old:end])
    for at in range(len(new) - 1, -1, -1):
        while old > start and cells[old - 1] > new[at]:
            old -= 1
            end -= 1
            cells[end] = cells[old]
        end -= 1
        cells[end] = new[at]


@jit_part
def _mean(xs: FloatArray, ys: FloatArray, level: float, contamination: float) -> float:
    if len(xs) == 0:
        return 0.0
    pairs = len(ys)
    held = _points(pairs, level, contamination)
    if 2 * held > pairs:
        found, mean = _mean_inside(xs[:pairs], ys, held)
        if found:
            return mean
    return float(np.median(np.concatenate((xs, ys))))


@jit
def _points(pairs: int, level: float, contamination: float) -> int:
    """ceil(h); 0 where h <= 0."""
    if pairs == 0:
        return 0
    alpha = max(contamination, level / pairs)
    sharper = level + np.log(4)
    return int(np.ceil(max(0.0, pairs * (1 - 2 * alpha) - np.sqrt(2 * alpha * sharper * pairs) - sharper)))


@jit_part
def _mean_inside(xs: FloatArray, ys: FloatArray, held: int) -> tuple[bool, float]:
    """The mean of the sorted `xs` in the shortest interval with `held` of the sorted `ys`; whether there are any."""
    best, shortest = 0, np.inf
    for j in range(len(ys) - held + 1):
        length = ys[j + held - 1] - ys[j]
        if length < shortest:
            best, shortest = j, length
    begin = np.searchsorted(xs, ys[best])
    end = np.searchsorted(xs, ys[best + held - 1], side="right")
    if begin == end:
        return False, 0.0
    return True, xs[begin:end].mean()
