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


class Statistics(Stateful):
    """n sets of sufficient statistics: `gram` (n, d, d), `moment` (n, d), `count` (n,)."""

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moment", "count")

    def __init__(self, n: int, dim: int) -> None:
        self.gram = kernels.aligned((n, dim, dim))
        self.moment = np.zeros((n, dim))
        self.count = np.zeros(n)

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.gram, self.moment, self.count))

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
