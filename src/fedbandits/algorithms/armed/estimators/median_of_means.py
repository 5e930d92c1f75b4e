"""The median of means of heavy-tailed samples, from sums of blocks that are never subtracted from each other."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, take_all
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit, jit_part

_CHUNK = 64


class MedianOfMeans(Estimator):
    """The median of the means of k blocks of floor(n/k) consecutive samples; the rest, fewer than k, is left out.

    k = max(1, floor(min(1 + 16 log t, n/2))), where 1 + 16 log t is 8 log(e^(1/8) / delta) at delta = 1/t^2; the median
    of an even number is the mean of the two in the middle. Half-width (12 v)^(1/p) ((2 + 32 log t) / n)^((p-1)/p),
    where E|X - EX|^p <= v. Guarantee: off by more with probability at most 1/t^2 (Dubey (2022), thesis, lemma 4.2,
    after Bubeck, Cesa-Bianchi & Lugosi 2013).

    All `samples` are kept, 8 bytes each, and the sums of every 64 consecutive ones (`chunks`), out of which, and of
    samples at both ends, the sum of a block is put together: an estimate costs at most 126 k + n/64 additions. A
    block's sum is off by at most (128 + n/(64 k)) 2^-53 of the sum of the absolute values *in that block*: an outlier
    takes digits from its own block alone, whereas differences of running sums would lose those of all blocks after it.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "samples", "chunks")

    def __init__(self, n: int, arms: int, order: float, central: float, scale: float = 1.0) -> None:
        rate = Rate(factor=(12 * central) ** (1 / order), slope=32.0, exponent=1 - 1 / order, base=2.0)
        super().__init__(n, arms, rate.scaled(scale))
        self.samples, self.chunks = Rows(n, arms), Rows(n, arms)

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> MedianOfMeans:
        """For n agents of `problem`."""
        order, central = parameters.tail_order(problem), parameters.central_moment(problem)
        return cls(n, problem.arms, order, central, parameters.scale)

    def estimates(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) medians of means."""
        return _medians(self.samples.lists, self.chunks.lists, who, turns)

    def _gather(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        def take(first: int) -> int:
            return _append(self.samples.lists, self.chunks.lists, self.counts, to, row, arms, rewards, first)

        take_all(to, row, arms, take, self.samples, self.chunks)


@jit
def _append(
    samples: Lists,
    chunks: Lists,
    counts: IntArray,
    to: IntArray,
    row: IntArray,
    arms: IntArray,
    rewards: FloatArray,
    first: int,
) -> int:
    for e in range(first, len(to)):
        i, r = to[e], row[e]
        k = arms[r]
        length, complete = samples.lengths[i, k] + 1, chunks.lengths[i, k]
        if length > samples.rooms[i, k] or complete == chunks.rooms[i, k]:
            return e
        end = samples.starts[i, k] + length
        samples.cells[end - 1] = rewards[r]
        if length % _CHUNK == 0:
            chunks.cells[chunks.starts[i, k] + complete] = _sum(samples.cells, end - _CHUNK, end)
            chunks.lengths[i, k] = complete + 1
        samples.lengths[i, k] = length
        counts[i, k] += 1
    return len(to)


@jit_part
def _sum(cells: FloatArray, begin: int, end: int) -> float:
    total = 0.0
    for s in range(end - begin):
        # unsigned: an index that might count from the end would keep the loop from becoming SIMD
        total += cells[np.uint64(begin + s)]
    return total


@jit_part
def _block(samples: FloatArray, chunks: FloatArray, start: int, chunk: int, begin: int, end: int) -> float:
    """The sum of samples begin, ..., end - 1 of the list at `start`, whose chunks are at `chunk`."""
    first, last = (begin + _CHUNK - 1) // _CHUNK, end // _CHUNK
    if first >= last:
        return _sum(samples, start + begin, start + end)
    head = _sum(samples, start + begin, start + first * _CHUNK)
    tail = _sum(samples, start + last * _CHUNK, start + end)
    return head + _sum(chunks, chunk + first, chunk + last) + tail


@jit
def _medians(samples: Lists, chunks: Lists, who: IntArray, turns: IntArray) -> FloatArray:
    out = np.zeros((len(who), samples.lengths.shape[1]))
    for a in range(len(who)):
        i = who[a]
        most = 1 + 16 * np.log(turns[a])
        means = np.empty(int(most))
        for k in range(out.shape[1]):
            n = samples.lengths[i, k]
            if n == 0:
                continue
            blocks = max(1, int(min(most, n / 2)))
            size = n // blocks
            start, chunk = samples.starts[i, k], chunks.starts[i, k]
            for b in range(blocks):
                means[b] = _block(samples.cells, chunks.cells, start, chunk, b * size, (b + 1) * size) / size
            out[a, k] = np.median(means[:blocks])
    return out
