"""Sums to which a few observations were added since: their difference has a low rank, and inverses follow at its cost.

For G' = G + L^T L, with L (k, d), and V = G + lambda I (Woodbury):

    V'^-1 = V^-1 - W^T W,    W = C^-1 L V^-1,    C C^T = I + L V^-1 L^T,    log det V' = log det V + 2 sum log C_jj

which takes O(k d^2) instead of the O(d^3) of a factorisation.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.kernels import dot
from fedbandits.linalg.recycled import read_only
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, muladd, store, target, total, zero

Floats: TypeAlias = NDArray[np.float64]

_ROUNDING = 256 * float(np.finfo(np.float64).eps)
"""What is left of a difference counts as rounding below so many times the largest number on the diagonal."""


def factor_of_difference(before: Floats, after: Floats, most: int) -> Floats | None:
    """(k, d) L with L^T L = after - before, k <= `most`, up to the rounding of sums; None: there is none so low.

    Shapes: before and after (d, d), symmetric. By a pivoted Cholesky decomposition that reads k rows of the difference;
    every row is then held against the result up to its diagonal, since a difference need not be semidefinite.
    """
    factor = np.empty((most, len(before)))
    rank = _factor(_rows(before), _rows(after), factor)
    return None if rank < 0 else factor[:rank]


def _rows(array: Floats) -> Floats:
    """An array to read, row by row in memory: one type to compile functions for."""
    return read_only(np.ascontiguousarray(array))


@jit
def write_square(x: Floats, out: Floats) -> None:
    """Write x x^T, for x (d,), to `out` (d, d)."""
    for i in range(len(x)):
        row, weight = out[i], x[i]
        for j in range(len(x)):
            row[j] = weight * x[j]


def add_to_inverse(inverse: Floats, factor: Floats, moment: Floats, theta: Floats) -> float:
    """Let `inverse` (d, d), V^-1, be that of V + L^T L, in place, for a `factor` L (k, d); returns what log det V grows
    by. A symmetric matrix stays so, to the bit. `theta` (d,) becomes the new inverse times `moment` (d,).
    """
    return _add(inverse, np.ascontiguousarray(factor), np.ascontiguousarray(moment), theta)


def follow(before: Floats, after: Floats, most: int, inverse: Floats, moment: Floats, theta: Floats) -> float | None:
    """`add_to_inverse` of the `factor_of_difference`, in one piece; None, and nothing has changed, where there is none
    or `moment` is not finite.
    """
    grown = _follow(_rows(before), _rows(after), most, inverse, _rows(moment), theta)
    return None if np.isnan(grown) else grown


@jit
def _follow(before: Floats, after: Floats, most: int, inverse: Floats, moment: Floats, theta: Floats) -> float:
    """NaN where there is no factor."""
    for value in moment:
        if not abs(value) < np.inf:
            return np.nan
    factor = np.empty((most, len(before)))
    rank = _factor(before, after, factor)
    return np.nan if rank < 0 else _add(inverse, factor[:rank], moment, theta)


@jit
def _factor(before: Floats, after: Floats, factor: Floats) -> int:
    """The rank, or -1."""
    most, d = factor.shape
    left = np.empty(d)
    largest = 0.0
    for i in range(d):
        left[i] = after[i, i] - before[i, i]
        largest = max(largest, after[i, i])
    rounding = _ROUNDING * largest
    if not rounding < np.inf:
        return -1
    rank = 0
    while True:
        pivot = np.argmax(left)
        if not left[pivot] > rounding:
            break
        if rank == most:
            return -1
        row, scale = factor[rank], 1.0 / np.sqrt(left[pivot])
        for j in range(d):
            row[j] = after[pivot, j] - before[pivot, j]
        for k in range(rank):
            weight, other = factor[k, pivot], factor[k]
            for j in range(d):
                row[j] -= weight * other[j]
        for j in range(d):
            row[j] *= scale
            left[j] -= row[j] * row[j]
        left[pivot] = 0.0
        rank += 1
    return rank if _is_all(before, after, factor, rank, d * rounding * rounding) else -1


@jit_part
def _is_all(before: Floats, after: Floats, factor: Floats, rank: int, most: float) -> bool:
    """Whether the squares of after - before - L^T L, L being the first `rank` rows of `factor`, add up to no more than
    `most` in any row up to its diagonal.
    """
    d = len(before)
    weights = address(factor, 0)
    for i in range(d):
        new, old = address(after, i * d), address(before, i * d)
        wide, narrow, square, j = zero(3), zero(1), 0.0, 0
        while j + 12 <= i + 1:
            wide = _add_left(wide, new, old, weights, d, rank, i, j)
            j += 12
        while j + 4 <= i + 1:
            narrow = _add_left(narrow, new, old, weights, d, rank, i, j)
            j += 4
        while j <= i:
            square = _add_left(square, new, old, weights, d, rank, i, j)
            j += 1
        if not square + total(wide) + total(narrow) <= most:
            return False
    return True


@jit_inside
def _add_left(squares: Value, new: Address, old: Address, factor: Address, d: int, rank: int, i: int, j: int) -> Value:
    """`squares` and those of what is left in row i, over the columns from j on that it spans."""
    rest = add(load(squares, new, j), mul(-1.0, load(squares, old, j)))
    own, other = address(factor, i), address(factor, j)
    for _ in range(rank):
        rest = muladd(mul(-1.0, load(0.0, own, 0)), load(squares, other, 0), rest)
        own, other = address(own, d), address(other, d)
    return muladd(rest, rest, squares)


@jit
def _add(inverse: Floats, factor: Floats, moment: Floats, theta: Floats) -> float:
    rows = _products(factor, inverse)
    inner = np.dot(rows, factor.T)
    grown = 0.0
    for j in range(len(rows)):  # C row by row, and rows of L V^-1 become those of W as it goes
        own = rows[j]
        for k in range(j + 1):
            total = inner[j, k] + (1.0 if j == k else 0.0)
            for r in range(k):
                total -= inner[j, r] * inner[k, r]
            inner[j, k] = np.sqrt(total) if j == k else total / inner[k, k]
        for k in range(j):
            other, weight = rows[k], inner[j, k]
            for c in range(len(own)):
                own[c] -= weight * other[c]
        for c in range(len(own)):
            own[c] /= inner[j, j]
        grown += 2.0 * np.log(inner[j, j])
    _subtract_squares(inverse, rows, moment, theta)
    return grown


@jit_part
def _products(factor: Floats, matrix: Floats) -> Floats:
    """(k, d) L M for a symmetric M, in one pass over it: k is too small for BLAS to be worth copying M for."""
    out = np.empty(factor.shape)
    _products_into(factor, matrix, out)
    return out


@jit_part
def _products_into(factor: Floats, matrix: Floats, out: Floats) -> None:
    rank, d = factor.shape
    rows, weights, found = address(matrix, 0), address(factor, 0), target(out, 0)
    whole = d - d % 4
    for i in range(0, whole, 4):  # four rows are used for all of L while they are at hand
        for k in range(0, rank - 1, 2):
            _dots_of_two(address(rows, i * d), address(weights, k * d), d, address(found, k * d + i))
        if rank % 2 == 1:
            _dots_of_one(address(rows, i * d), address(weights, (rank - 1) * d), d, address(found, (rank - 1) * d + i))
    for i in range(whole, d):
        for k in range(rank):
            store(found, k * d + i, dot(address(rows, i * d), address(weights, k * d), d))


@jit_part
def _dots_of_two(rows: Address, factor: Address, d: int, out: Address) -> None:
    """Write the products of four rows with two of L."""
    none = zero(1)
    r1, r2, r3, other = address(rows, d), address(rows, 2 * d), address(rows, 3 * d), address(factor, d)
    a0, a1, a2, a3 = none, none, none, none
    b0, b1, b2, b3 = none, none, none, none
    whole = d - d % 4
    for c in range(0, whole, 4):
        x, y = load(none, factor, c), load(none, other, c)
        row = load(none, rows, c)
        a0, b0 = muladd(row, x, a0), muladd(row, y, b0)
        row = load(none, r1, c)
        a1, b1 = muladd(row, x, a1), muladd(row, y, b1)
        row = load(none, r2, c)
        a2, b2 = muladd(row, x, a2), muladd(row, y, b2)
        row = load(none, r3, c)
        a3, b3 = muladd(row, x, a3), muladd(row, y, b3)
    _finish(rows, factor, d, a0, a1, a2, a3, out)
    _finish(rows, other, d, b0, b1, b2, b3, address(out, d))


@jit_part
def _dots_of_one(rows: Address, factor: Address, d: int, out: Address) -> None:
    """Write the products of four rows with one of L."""
    none = zero(1)
    r1, r2, r3 = address(rows, d), address(rows, 2 * d), address(rows, 3 * d)
    a0, a1, a2, a3 = none, none, none, none
    for c in range(0, d - d % 4, 4):
        x = load(none, factor, c)
        a0, a1 = muladd(load(none, rows, c), x, a0), muladd(load(none, r1, c), x, a1)
        a2, a3 = muladd(load(none, r2, c), x, a2), muladd(load(none, r3, c), x, a3)
    _finish(rows, factor, d, a0, a1, a2, a3, out)


@jit_inside
def _finish(rows: Address, factor: Address, d: int, a0: Value, a1: Value, a2: Value, a3: Value, out: Address) -> None:
    """Write four products, of which a0 to a3 are what whole registers have given."""
    s0, s1, s2, s3 = total(a0), total(a1), total(a2), total(a3)
    for c in range(d - d % 4, d):
        x = load(0.0, factor, c)
        s0, s1 = muladd(load(0.0, rows, c), x, s0), muladd(load(0.0, rows, d + c), x, s1)
        s2, s3 = muladd(load(0.0, rows, 2 * d + c), x, s2), muladd(load(0.0, rows, 3 * d + c), x, s3)
    store(out, 0, s0)
    store(out, 1, s1)
    store(out, 2, s2)
    store(out, 3, s3)


@jit_part
def _subtract_squares(matrix: Floats, rows: Floats, moment: Floats, theta: Floats) -> None:
    """M -= W^T W, each entry rounded as the one opposite, and theta = M b on the way."""
    rank, d = rows.shape
    entries, factor, weights, found = target(matrix, 0), address(rows, 0), address(moment, 0), target(theta, 0)
    whole = d - d % 4
    for i in range(0, whole, 4):
        row, own = address(entries, i * d), address(factor, i)
        j = 0
        while j + 12 <= d:
            _subtract_tile(zero(3), row, own, address(factor, j), d, rank, j)
            j += 12
        while j + 4 <= d:
            _subtract_tile(zero(1), row, own, address(factor, j), d, rank, j)
            j += 4
        while j < d:
            _subtract_tile(0.0, row, own, address(factor, j), d, rank, j)
            j += 1
        _dots_of_one(row, weights, d, address(found, i))
    for i in range(whole, d):
        for j in range(d):
            entry = load(0.0, entries, i * d + j)
            for k in range(rank):
                entry = muladd(mul(-1.0, load(0.0, factor, k * d + i)), load(0.0, factor, k * d + j), entry)
            store(entries, i * d + j, entry)
        store(found, i, dot(address(entries, i * d), weights, d))


@jit_part
def _subtract_tile(none: Value, row: Address, own: Address, factor: Address, d: int, rank: int, j: int) -> None:
    """Four rows of M - W^T W, over the columns from j on that `none` spans; `own` are the four of W that say how much
    of its columns, `factor`, to take.
    """
    a, b = load(none, row, j), load(none, row, d + j)
    c, e = load(none, row, 2 * d + j), load(none, row, 3 * d + j)
    for _ in range(rank):
        x = mul(-1.0, load(none, factor, 0))
        a, b = muladd(load(0.0, own, 0), x, a), muladd(load(0.0, own, 1), x, b)
        c, e = muladd(load(0.0, own, 2), x, c), muladd(load(0.0, own, 3), x, e)
        own, factor = address(own, d), address(factor, d)
    store(row, j, a)
    store(row, d + j, b)
    store(row, 2 * d + j, c)
    store(row, 3 * d + j, e)
