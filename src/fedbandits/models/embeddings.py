"""How alike agents are, told from the contexts they see: kernel mean embeddings.

The contexts of agent v come from a law P_v, whose embedding is psi_v = E k(., x), a point in the kernel's space. With
samples x_1, ..., x_r of v and y_1, ..., y_s of w, the distance of the empirical embeddings is

    MMD^2(v, w) = (1/r^2) sum k(x_i, x_j) + (1/s^2) sum k(y_i, y_j) - (2/(r s)) sum k(x_i, y_j),

and agents are as alike as exp(-MMD / (2 sigma^2)), or exp(-MMD^2 / (2 sigma^2)): both are kernels over agents, since
MMD is a distance in a Hilbert space and its square root is one as well (Schoenberg). Dubey (2022), thesis, section
8.4.3, which prints MMD^2 without 1/t^2: as printed it grows with t, and nobody is like anybody.

It is biased upwards: of two agents with the same law, r samples each, MMD^2 is 2 (1 - E k(x, y)) / r on average.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.linalg.exponential import exponential
from fedbandits.linalg.jit import jit
from fedbandits.models.kernels import Kernel, cross


class Samples:
    """Contexts of several origins, in blocks: `add` one, and ask how alike they are.

    Blocks that are the same, to the last bit, are one: so many populations of listeners who have heard the same cost
    no more than one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._known: dict[bytes, int] = {}
        self._origins: list[int] = []
        self._blocks: list[FloatArray] = []

    def add(self, origin: int, contexts: FloatArray) -> int:
        """The number of the block of `contexts` (r, d) that were heard from `origin`."""
        key = origin.to_bytes(8, "little") + contexts.tobytes()
        if key not in self._known:
            self._known[key] = len(self._blocks)
            self._origins.append(origin)
            self._blocks.append(contexts)
        return self._known[key]

    def alike(self, groups: Sequence[IntArray], sigma: float, squared: bool) -> list[FloatArray]:
        """For every group, blocks (m,): (m, m) how alike they are. A block without contexts is like itself alone."""
        order = np.argsort(self._origins, kind="stable")  # sums of two blocks do not depend on who was heard first
        place = np.argsort(order)
        groups = [place[group] for group in groups]
        blocks = [self._blocks[at] for at in order]
        lengths = np.array([len(block) for block in blocks])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        points = np.ascontiguousarray(np.concatenate(blocks))
        wanted = np.zeros((len(lengths), len(lengths)), dtype=np.bool_)
        for group in groups:
            wanted[np.ix_(group, group)] = True
        means = np.zeros(wanted.shape)
        _means(self._kernel.code, self._kernel.rates, points, starts, wanted, means)
        found = np.zeros(wanted.shape)
        _alike(means, lengths, wanted, 2 * sigma**2, squared, found)
        return [np.ascontiguousarray(found[np.ix_(group, group)]) for group in groups]


def discrepancies(kernel: Kernel, blocks: Sequence[FloatArray]) -> FloatArray:
    """(m, m) MMD^2 between the samples `blocks[i]` (r_i, d), all of which have some."""
    lengths = np.array([len(block) for block in blocks])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    means = np.zeros((len(blocks), len(blocks)))
    points = np.ascontiguousarray(np.concatenate(blocks))
    _means(kernel.code, kernel.rates, points, starts, np.ones(means.shape, dtype=np.bool_), means)
    own = np.diag(means)
    return np.asarray(np.maximum(own[:, None] + own[None, :] - 2 * means, 0.0))


@jit
def _means(
    code: int, rates: FloatArray, points: FloatArray, starts: IntArray, wanted: BoolArray, means: FloatArray
) -> None:
    """The mean of k over all pairs of two blocks, pair by pair: none depends on which others there are."""
    count = len(starts) - 1
    longest = 0
    for v in range(count):
        longest = max(longest, starts[v + 1] - starts[v])
    work = np.empty((longest, longest))
    for v in range(count):
        rows = starts[v + 1] - starts[v]
        for w in range(v, count):
            columns = starts[w + 1] - starts[w]
            if not wanted[v, w] or rows == 0 or columns == 0:
                continue
            lanes = np.ascontiguousarray(points[starts[w] : starts[w + 1]].T)
            out = work[:, :columns]
            cross(code, rates, points[starts[v] : starts[v + 1]], rows, lanes, out)
            total = 0.0
            for r in range(rows):
                line = 0.0
                for c in range(columns):
                    line += out[r, c]
                total += line
            means[v, w] = means[w, v] = total / (rows * columns)


@jit
def _alike(
    means: FloatArray, lengths: IntArray, wanted: BoolArray, scale: float, squared: bool, out: FloatArray
) -> None:
    for v in range(len(lengths)):
        out[v, v] = 1.0
        for w in range(v):
            if not wanted[v, w] or lengths[v] == 0 or lengths[w] == 0:
                continue
            apart = max(means[v, v] + means[w, w] - 2.0 * means[v, w], 0.0)
            if not squared:
                apart = np.sqrt(apart)
            out[v, w] = out[w, v] = exponential(-apart / scale)
