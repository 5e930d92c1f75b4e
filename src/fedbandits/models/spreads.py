"""How far agents have looked: the inverse of lambda I + sum x x^T over own observations, for large d."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, places
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit
from fedbandits.models.ridge import REFRESH_EVERY

WAITING = 32
"""Observations that are added to sums together: a product of matrices, in place of so many passes."""


class Spreads(Stateful):
    """n matrices V = lambda I + sum x x^T, of which `inverse` (n, d, d) = V^-1 is kept up to date.

    As `models.ridge` without rewards, and without what others say. The sums themselves serve to compute an inverse anew
    after `REFRESH_EVERY` observations and for nothing else, so they may lag behind: `gram` (n, d, d) lacks the `held`
    (n,) last observations of an agent, which are the first of `waiting` (n, WAITING, d). Numerics: Sherman-Morrison,
    row by row, which for large d takes half the time of the kernels of small ones; O(d^2) an observation.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inverse", "gram", "waiting", "held", "updates")

    def __init__(self, n: int, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self.inverse, self.gram = kernels.aligned((n, dim, dim)), kernels.aligned((n, dim, dim))
        self.inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / ridge
        self.waiting = np.zeros((n, WAITING, dim))
        self.held, self.updates = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def lengths(self, who: IntArray, x: FloatArray) -> FloatArray:
        """(w, K) sqrt(x^T V^-1 x) of `x` (w, K, d)."""
        return lengths(self.inverse, who, x)

    def learn(self, who: IntArray, x: FloatArray) -> None:
        """Take in one observation (w, d) for each of `who`."""
        most = _learn(self.inverse, self.gram, self.waiting, self.held, self.updates, who, np.ascontiguousarray(x))
        if most >= REFRESH_EVERY:
            self._factorise(who[self.updates[who] >= REFRESH_EVERY])

    def shown(self, who: IntArray) -> FloatArray:
        """(w, d, d) V^-1, not to be written to: of everybody, as it is now and without a copy, until they `learn`."""
        shown = self.inverse[places(who, len(self.inverse))].view()
        shown.flags.writeable = False
        return shown

    def matrices(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, d, d) V."""
        late = self.waiting[who]
        return np.asarray(self.gram[who] + late.transpose(0, 2, 1) @ late + self.ridge * np.eye(self.gram.shape[1]))

    def _factorise(self, who: IntArray) -> None:
        """Compute inverses anew."""
        for agent in who:  # one at a time: few come due together, and each needs room for several matrices
            late = self.waiting[agent]
            gram = (self.gram[agent] + late.T @ late)[None]
            self.inverse[agent] = kernels.factorise(gram, np.zeros((1, len(late[0]))), self.ridge)[0][0]
        self.updates[who] = 0


def lengths(inverse: FloatArray, rows: IntArray, x: FloatArray) -> FloatArray:
    """(w, K) sqrt(x^T M x) of `x` (w, K, d), for M among `inverse` (m, d, d) in the given `rows` (w,)."""
    nothing = np.zeros(inverse.shape[:2])
    return kernels.scores_optimistic(inverse, nothing, np.ones(len(rows)), rows, kernels.as_lanes(x))


@jit
def _learn(
    inverse: FloatArray,
    gram: FloatArray,
    waiting: FloatArray,
    held: IntArray,
    updates: IntArray,
    who: IntArray,
    x: FloatArray,
) -> int:
    """The largest number of updates since an inverse was computed anew."""
    if x.shape[1] != inverse.shape[1] or len(x) != len(who):
        raise ValueError("one observation of the right dimension is needed for each agent")
    u, most = np.empty(x.shape[1]), 0
    for a in range(len(who)):
        i = who[a]
        if i < 0 or i >= len(inverse):
            raise IndexError("who names an agent outside the population")
        _look(inverse[i], x[a], u)
        waiting[i, held[i]] = x[a]
        held[i] += 1
        if held[i] == len(waiting[i]):
            _add_squares(gram[i], waiting[i])
            waiting[i] = 0.0
            held[i] = 0
        updates[i] += 1
        most = max(most, updates[i])
    return most


@jit
def _look(inverse: FloatArray, x: FloatArray, u: FloatArray) -> None:
    """V^-1 -= u u^T / (1 + x^T u) for u = V^-1 x, in place; a symmetric matrix stays so, to the bit.

    The product reads the lower triangle alone, each number for its row and for its column.
    """
    d = len(x)
    u[:] = 0.0
    for i in range(d):
        row, own, total = inverse[i], x[i], 0.0
        for j in range(i):
            total += row[j] * x[j]
            u[j] += row[j] * own
        u[i] += total + row[i] * own
    square = 0.0
    for i in range(d):
        square += u[i] * x[i]
    scale = 1.0 / np.sqrt(1.0 + square)
    for i in range(d):
        u[i] *= scale
    for i in range(d):
        row, own = inverse[i], u[i]
        for j in range(d):
            row[j] -= own * u[j]


@jit
def _add_squares(gram: FloatArray, rows: FloatArray) -> None:
    """gram += rows^T rows; one triangle is computed, and the other is the same to the last bit."""
    product = np.dot(rows.T, rows)
    for i in range(len(gram)):
        for j in range(i):
            gram[i, j] += product[i, j]
            gram[j, i] = gram[i, j]
        gram[i, i] += product[i, i]
