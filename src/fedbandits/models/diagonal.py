"""Ridge regressions of which only the diagonal of the matrix is kept: p numbers in place of p^2.

As `models.ridge`, with gram = diag(sum x x^T), V = gram + lambda and theta = moment / V, coordinate by coordinate: no
least-squares estimate, unless all x are along the axes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful


class DiagonalStatistics(Stateful):
    """n sets: `gram` (n, p) sums of squares, `moment` (n, p), `count` (n,)."""

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moment", "count")

    def __init__(self, n: int, dim: int) -> None:
        self.gram, self.moment, self.count = np.zeros((n, dim)), np.zeros((n, dim)), np.zeros(n)

    def merge(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Add one share for each of `who`."""
        self.gram[who] += gram
        self.moment[who] += moment
        self.count[who] += count

    def clear(self, who: IntArray) -> None:
        """Forget everything about `who`."""
        for array in (self.gram, self.moment, self.count):
            array[who] = 0.0


class DiagonalModels(Stateful):
    """n such regressions, each resting on `base` plus `fresh`; see `RidgeModels`."""

    keeps: ClassVar[tuple[str, ...]] = ("base", "fresh")

    def __init__(self, n: int, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self.base, self.fresh = DiagonalStatistics(n, dim), DiagonalStatistics(n, dim)

    @property
    def since(self) -> FloatArray:
        """(n,) own observations since the last that were handed over."""
        return self.fresh.count

    def diagonals(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, p) V."""
        return np.asarray(self.base.gram[who] + self.fresh.gram[who] + self.ridge)

    def estimates(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, p) theta."""
        return np.asarray((self.base.moment[who] + self.fresh.moment[who]) / self.diagonals(who))

    def learn_chosen(self, who: IntArray, x: FloatArray, rewards: FloatArray) -> None:
        """Take in one observation per agent, into `fresh`: chosen arms (w, p)."""
        self.fresh.merge(who, x**2, rewards[:, None] * x, np.ones(len(who)))

    def handed(self, who: IntArray) -> dict[str, FloatArray]:
        """What is new, as messages carry it; counts as settled from here on."""
        fresh = self.fresh
        new = {"gram": fresh.gram[who], "moment": fresh.moment[who], "count": fresh.count[who]}
        self.base.merge(who, **new)
        fresh.clear(who)
        return new

    def unsettle(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Move the given part of `base` back into `fresh`; nothing of `base` becomes negative by rounding."""
        self.base.gram[who] = np.maximum(self.base.gram[who] - gram, 0.0)
        self.base.moment[who] -= moment
        self.base.count[who] -= count
        self.fresh.merge(who, gram, moment, count)

    def replace(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Let `base` be the given statistics, `fresh` staying on top."""
        self.base.gram[who], self.base.moment[who], self.base.count[who] = gram, moment, count
