"""The median of means of heavy-tailed samples, from sums of blocks that are never subtracted from each other."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import estimate_at, fits, take_in, weightless
from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, append, holds
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import stands_for
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside, jit_part

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

    def _known(self) -> Blocks:
        return Blocks(self.counts, self.samples.lists, self.chunks.lists)

    def _extend(self, agent: int, arm: int) -> None:
        self.samples.extend(agent, arm)
        self.chunks.extend(agent, arm)

    def _reserve(self, samples: IntArray) -> bool:
        return self.samples.reserve(samples) and self.chunks.reserve(samples // _CHUNK + 1)


@weightless
class Blocks(NamedTuple):
    """`MedianOfMeans` as kernels take it."""

    counts: IntArray
    samples: Lists
    chunks: Lists


@stands_for(take_in, Blocks)
@jit_inside
def _take_in(known: Blocks, i: Index, k: Index, reward: float, weight: float) -> bool:
    if not (holds(known.samples, i, k, 1) and holds(known.chunks, i, k, 1)):
        return False
    append(known.samples, i, k, reward)
    length = known.samples.lengths[i, k]
    if length % _CHUNK == 0:
        end = known.samples.starts[i, k] + length
        append(known.chunks, i, k, _sum(known.samples.cells, end - _CHUNK, end))
    known.counts[i, k] += 1
    return True


@stands_for(fits, Blocks)
@jit_inside
def _fits(known: Blocks, i: int, k: int, samples: int) -> bool:
    return holds(known.samples, i, k, samples) and holds(known.chunks, i, k, samples // _CHUNK + 1)


@stands_for(estimate_at, Blocks)
@jit_inside
def _estimate_at(known: Blocks, i: int, k: int, now: float) -> float:
    return _median(known.samples, known.chunks, i, k, 1 + 16 * now)


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


@jit_part
def _median(samples: Lists, chunks: Lists, i: int, k: int, most: float) -> float:
    """Of the means of at most so many blocks."""
    n = samples.lengths[i, k]
    if n == 0:
        return 0.0
    blocks = max(1, int(min(most, n / 2)))
    size = n // blocks
    start, chunk = samples.starts[i, k], chunks.starts[i, k]
    means = np.empty(blocks)
    for b in range(blocks):
        means[b] = _block(samples.cells, chunks.cells, start, chunk, b * size, (b + 1) * size) / size
    return float(np.median(means))
