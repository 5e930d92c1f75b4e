"""How far agents have looked: the inverse of lambda I + sum x x^T over own observations, for large d."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, places
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.kernels import dot
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, muladd, store, target, total, zero
from fedbandits.models.ridge import REFRESH_EVERY

WAITING = 32
"""Observations that are added to sums together: a product of matrices, in place of so many passes."""


class Spreads(Stateful):
    """n matrices V = lambda I + sum x x^T, of which `inverse` (n, d, d) = V^-1 is kept up to date.

    As `models.ridge` without rewards, and without what others say. The sums themselves serve to compute an inverse anew
    after `REFRESH_EVERY` observations and for nothing else, so they may lag behind: `gram` (n, d, d) lacks the `held`
    (n,) last observations of an agent, which are the first of `waiting` (n, WAITING, d). Numerics: Sherman-Morrison,
    row by row, which for large d takes half the time of the kernels of small ones; O(d^2) an observation.

    V^-1 = A - u u^T is multiplied out when somebody looks at it. Whoever wants the mean of all inverses, or all of them
    written elsewhere, has both in one pass (`mean_into`, `copy_into`).
    """

    keeps: ClassVar[tuple[str, ...]] = ("inverse", "gram", "waiting", "held", "updates")

    def __init__(self, n: int, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self._inverse, self.gram = kernels.aligned((n, dim, dim)), kernels.aligned((n, dim, dim))
        self._inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / ridge
        self._late, self._is_late = np.zeros((n, dim)), False
        self.waiting = np.zeros((n, WAITING, dim))
        self.held, self.updates = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    @property
    def inverse(self) -> FloatArray:
        """(n, d, d) V^-1."""
        if self._is_late:
            _catch_up(self._inverse, self._late)
            self._is_late = False
        return self._inverse

    def lengths(self, who: IntArray, x: FloatArray) -> FloatArray:
        """(w, K) sqrt(x^T V^-1 x) of `x` (w, K, d)."""
        return lengths(self.inverse, who, x)

    def learn(self, who: IntArray, x: FloatArray) -> None:
        """Take in one observation (w, d) for each of `who`."""
        points = np.ascontiguousarray(x)
        most = _learn(self.inverse, self._late, self.gram, self.waiting, self.held, self.updates, who, points)
        self._is_late = True
        if most >= REFRESH_EVERY:
            self._factorise(who[self.updates[who] >= REFRESH_EVERY])

    def shown(self, who: IntArray) -> FloatArray:
        """(w, d, d) V^-1, not to be written to: of everybody, as it is now and without a copy, until they `learn`."""
        shown = self.inverse[places(who, len(self.inverse))].view()
        shown.flags.writeable = False
        return shown

    def mean_into(self, out: FloatArray) -> None:
        """Write the mean (d, d) of everybody's V^-1: the same bits as `linalg.totals.mean_of` has."""
        _mean_into(self._inverse, self._late, out)
        self._is_late = False

    def copy_into(self, out: FloatArray) -> None:
        """Write everybody's V^-1 (n, d, d)."""
        _copy_into(self._inverse, self._late, out)
        self._is_late = False

    def matrices(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, d, d) V."""
        late = self.waiting[who]
        return np.asarray(self.gram[who] + late.transpose(0, 2, 1) @ late + self.ridge * np.eye(self.gram.shape[1]))

    def _factorise(self, who: IntArray) -> None:
        """Compute inverses anew."""
        inverse = self.inverse
        for agent in who:  # one at a time: few come due together, and each needs room for several matrices
            late = self.waiting[agent]
            gram = (self.gram[agent] + late.T @ late)[None]
            inverse[agent] = kernels.factorise(gram, np.zeros((1, len(late[0]))), self.ridge)[0][0]
        self.updates[who] = 0


def lengths(inverse: FloatArray, rows: IntArray, x: FloatArray) -> FloatArray:
    """(w, K) sqrt(x^T M x) of `x` (w, K, d), for M among `inverse` (m, d, d) in the given `rows` (w,)."""
    nothing = np.zeros(inverse.shape[:2])
    return kernels.scores_optimistic(inverse, nothing, np.ones(len(rows)), rows, kernels.as_lanes(x))


@jit
def _learn(
    inverse: FloatArray,
    late: FloatArray,
    gram: FloatArray,
    waiting: FloatArray,
    held: IntArray,
    updates: IntArray,
    who: IntArray,
    x: FloatArray,
) -> int:
    """The largest number of updates since an inverse was computed anew. What is to be taken off inverses goes to `late`
    (n, d), where nothing is.
    """
    if x.shape[1] != inverse.shape[1] or len(x) != len(who):
        raise ValueError("one observation of the right dimension is needed for each agent")
    most = 0
    for a in range(len(who)):
        i = who[a]
        if i < 0 or i >= len(inverse):
            raise IndexError("who names an agent outside the population")
        _look(inverse[i], x[a], late[i])
        waiting[i, held[i]] = x[a]
        held[i] += 1
        if held[i] == len(waiting[i]):
            _add_squares(gram[i], waiting[i])
            waiting[i] = 0.0
            held[i] = 0
        updates[i] += 1
        most = max(most, updates[i])
    return most


@jit_part
def _look(inverse: FloatArray, x: FloatArray, u: FloatArray) -> None:
    """u = V^-1 x / sqrt(1 + x^T V^-1 x), u u^T being what V^-1 is to lose.

    The product reads the lower triangle alone, each number for its row and for its column.
    """
    d = len(x)
    entries, seen, found = address(inverse, 0), address(x, 0), target(u, 0)
    u[:] = 0.0
    for i in range(d):
        row, own = address(entries, i * d), load(0.0, seen, i)
        wide, narrow, product, j = zero(4), zero(1), mul(load(0.0, row, i), own), 0
        while j + 16 <= i:
            wide = _row_and_column(wide, row, seen, own, found, j)
            j += 16
        while j + 4 <= i:
            narrow = _row_and_column(narrow, row, seen, own, found, j)
            j += 4
        while j < i:
            product = _row_and_column(product, row, seen, own, found, j)
            j += 1
        store(found, i, add(load(0.0, found, i), add(add(total(wide), total(narrow)), product)))
    scale = 1.0 / np.sqrt(1.0 + dot(found, seen, d))
    for i in range(d):
        u[i] *= scale


@jit_inside
def _row_and_column(sums: Value, row: Address, x: Address, own: float, u: Address, j: int) -> Value:
    """`sums` and the products of a row with x, over the columns from j on that it spans; what these columns have of
    that row's number of x, `own`, is added to u.
    """
    entries = load(sums, row, j)
    store(u, j, muladd(own, entries, load(sums, u, j)))
    return muladd(entries, load(sums, x, j), sums)


@jit
def _catch_up(inverse: FloatArray, late: FloatArray) -> None:
    """V^-1 -= u u^T, in place, u being zero from then on; a symmetric matrix stays so, to the bit."""
    n, d = late.shape
    for i in range(n):
        if late[i].any():
            for r in range(d):
                _take_off_row(target(inverse, (i * d + r) * d), address(late, i * d), late[i, r], d)
            late[i] = 0.0


@jit
def _mean_into(inverse: FloatArray, late: FloatArray, out: FloatArray) -> None:
    n, d = late.shape
    if out.shape != (d, d):
        raise ValueError("the mean of matrices has their shape")
    rows, u, found = target(inverse, 0), address(late, 0), target(out, 0)
    for r in range(d):
        j = 0
        while j + 16 <= d:
            _mean_tile(zero(4), address(rows, r * d + j), u, r, j, n, d, address(found, r * d + j))
            j += 16
        while j + 4 <= d:
            _mean_tile(zero(1), address(rows, r * d + j), u, r, j, n, d, address(found, r * d + j))
            j += 4
        while j < d:
            _mean_tile(0.0, address(rows, r * d + j), u, r, j, n, d, address(found, r * d + j))
            j += 1
    late[:] = 0.0


@jit_inside
def _mean_tile(none: Value, rows: Address, u: Address, r: int, j: int, n: int, d: int, out: Address) -> None:
    """One row of the mean, over the columns from j on that `none` spans."""
    sums = none
    for _ in range(n):
        entry = muladd(mul(-1.0, load(0.0, u, r)), load(none, u, j), load(none, rows, 0))
        store(rows, 0, entry)
        sums = add(sums, entry)
        rows, u = address(rows, d * d), address(u, d)
    store(out, 0, mul(1.0 / n, sums))


@jit
def _copy_into(inverse: FloatArray, late: FloatArray, out: FloatArray) -> None:
    n, d = late.shape
    if out.shape != inverse.shape:
        raise ValueError("copies have the shape of what is copied")
    for i in range(n):
        for r in range(d):
            _take_off_row(target(inverse, (i * d + r) * d), address(late, i * d), late[i, r], d)
            out[i, r] = inverse[i, r]
    late[:] = 0.0


@jit_inside
def _take_off_row(row: Address, u: Address, own: float, d: int) -> None:
    """row -= own u."""
    weight = mul(-1.0, own)
    for j in range(0, d - 3, 4):
        store(row, j, muladd(weight, load(zero(1), u, j), load(zero(1), row, j)))
    for j in range(d - d % 4, d):
        store(row, j, muladd(weight, load(0.0, u, j), load(0.0, row, j)))


@jit_part
def _add_squares(gram: FloatArray, rows: FloatArray) -> None:
    """gram += rows^T rows; one triangle is computed, and the other is the same to the last bit."""
    product = np.dot(rows.T, rows)
    for i in range(len(gram)):
        for j in range(i):
            gram[i, j] += product[i, j]
            gram[j, i] = gram[i, j]
        gram[i, i] += product[i, i]
