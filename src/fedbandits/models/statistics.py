"""Sufficient statistics of linear regression, which add up.

For observations (x_s, y_s): gram A = sum x x^T, moment b = sum y x, count m, all without the ridge term, so
that statistics of different agents are merged by addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, places
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit
from fedbandits.linalg.recycled import Recycled

Sums = tuple[FloatArray, FloatArray, FloatArray]
"""gram (m, d, d), moment (m, d), count (m,)."""


class Statistics(Stateful):
    """n sets of sufficient statistics: `gram` (n, d, d), `moment` (n, d), `count` (n,)."""

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moment", "count")

    def __init__(self, n: int, dim: int) -> None:
        self.gram = kernels.aligned((n, dim, dim))
        self.moment = np.zeros((n, dim))
        self.count = np.zeros(n)
        self._letters = Recycled()

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.gram, self.moment, self.count))

    @property
    def sums(self) -> Sums:
        """All of them, for compiled functions."""
        return self.gram, self.moment, self.count

    def rows(self, who: IntArray, *, counted: bool) -> dict[str, FloatArray]:
        """The statistics of `who` by name, as a message carries them; counts only where asked for."""
        named = {"gram": self.gram[who], "moment": self.moment[who]}
        return named | ({"count": self.count[who]} if counted else {})

    def clear(self, who: IntArray) -> None:
        """Forget everything about `who`."""
        rows = places(who, len(self.count))
        for array in self:
            array[rows] = 0.0

    def observe(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """Add one observation for each of `who`."""
        chosen = kernels.chosen(kernels.as_lanes(arms), picks)
        kernels.accumulate(self.gram, self.moment, self.count, who, chosen, rewards)

    def merge(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Add one share for each of `who`, distinct agents."""
        rows = places(who, len(self.count))
        self.gram[rows] += gram
        self.moment[rows] += moment
        self.count[rows] += count

    def merge_all(self, row: int, gram: FloatArray, moment: FloatArray, count: FloatArray) -> bool:
        """Add the sum of several shares, (w, d, d), (w, d), (w,), to one row; whether any of them takes something out
        of it, its gram having a negative trace.
        """
        self.count[row] += count.sum()
        return _add_sum(np.ascontiguousarray(gram), np.ascontiguousarray(moment), self.gram[row], self.moment[row])

    def scatter(self, rows: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Add share a to row `rows[a]`, one after the other; several may go to the same one."""
        shares = (np.ascontiguousarray(gram), np.ascontiguousarray(moment), np.ascontiguousarray(count))
        _scatter(self.sums, rows, shares)

    def lacking(self, who: IntArray, pools: Statistics, rows: IntArray, *, counted: bool) -> dict[str, FloatArray]:
        """What row `rows[a]` of `pools` has beyond the statistics of `who[a]`, by name; see `rows`."""
        d = self.moment.shape[1]
        found = (self._letters.empty((len(who), d, d)), np.empty((len(who), d)), np.empty(len(who)))
        _subtract(pools.sums, rows, self.sums, who, found)
        gram, moment, count = found
        return {"gram": gram, "moment": moment} | ({"count": count} if counted else {})

    def copy_from(self, who: IntArray, pools: Statistics, rows: IntArray) -> None:
        """Let the statistics of `who[a]` be those in row `rows[a]` of `pools`."""
        _copy(pools.sums, rows, self.sums, who)


@jit
def _add_sum(gram: FloatArray, moment: FloatArray, pooled_gram: FloatArray, pooled_moment: FloatArray) -> bool:
    """Shares are added up first, one after the other, and then to the row, as numpy's sums are."""
    w, d = moment.shape
    total, vector = np.zeros((d, d)), np.zeros(d)
    taken_out = False
    for a in range(w):
        trace = 0.0
        for j in range(d):
            for k in range(d):
                total[j, k] += gram[a, j, k]
            vector[j] += moment[a, j]
            trace += gram[a, j, j]
        taken_out |= trace < 0.0
    for j in range(d):
        for k in range(d):
            pooled_gram[j, k] += total[j, k]
        pooled_moment[j] += vector[j]
    return taken_out


@jit
def _scatter(pools: Sums, rows: IntArray, shares: Sums) -> None:
    gram, moment, count = borrowed(pools)
    more_gram, more_moment, more_count = borrowed(shares)
    kernels.check_who(len(count), rows)
    for a in range(len(rows)):
        i = rows[a]
        for j in range(moment.shape[1]):
            for k in range(moment.shape[1]):
                gram[i, j, k] += more_gram[a, j, k]
            moment[i, j] += more_moment[a, j]
        count[i] += more_count[a]


@jit
def _subtract(pools: Sums, rows: IntArray, known: Sums, who: IntArray, out: Sums) -> None:
    pool_gram, pool_moment, pool_count = borrowed(pools)
    gram, moment, count = borrowed(known)
    kernels.check_who(len(pool_count), rows)
    kernels.check_who(len(count), who)
    for a in range(len(who)):
        i, row = who[a], rows[a]
        for j in range(moment.shape[1]):
            for k in range(moment.shape[1]):
                out[0][a, j, k] = pool_gram[row, j, k] - gram[i, j, k]
            out[1][a, j] = pool_moment[row, j] - moment[i, j]
        out[2][a] = pool_count[row] - count[i]


@jit
def _copy(pools: Sums, rows: IntArray, known: Sums, who: IntArray) -> None:
    pool_gram, pool_moment, pool_count = borrowed(pools)
    gram, moment, count = borrowed(known)
    kernels.check_who(len(pool_count), rows)
    kernels.check_who(len(count), who)
    for a in range(len(who)):
        i, row = who[a], rows[a]
        for j in range(moment.shape[1]):
            for k in range(moment.shape[1]):
                gram[i, j, k] = pool_gram[row, j, k]
            moment[i, j] = pool_moment[row, j]
        count[i] = pool_count[row]
