"""Sums to which a few observations were added since: their difference has a low rank, and inverses follow at its cost.

For G' = G + L^T L, with L (k, d), and V = G + lambda I (Woodbury):

    V'^-1 = V^-1 - W^T W,    W = C^-1 L V^-1,    C C^T = I + L V^-1 L^T,    log det V' = log det V + 2 sum log C_jj

which takes O(k d^2) instead of the O(d^3) of a factorisation.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit
from fedbandits.linalg.recycled import read_only

Floats: TypeAlias = NDArray[np.float64]

_ROUNDING = 256 * float(np.finfo(np.float64).eps)
"""What is left of a difference counts as rounding below so many times the largest number on the diagonal."""


def factor_of_difference(before: Floats, after: Floats, most: int) -> Floats | None:
    """(k, d) L with L^T L = after - before, k <= `most`, up to the rounding of sums; None: there is none so low.

    Shapes: before and after (d, d), symmetric. By a pivoted Cholesky decomposition that reads k rows of the difference;
    every row is then held against the result up to its diagonal, since a difference need not be semidefinite.
    """
    factor = np.empty((most, len(before)))
    rank = _factor(read_only(before), read_only(after), factor)
    return None if rank < 0 else factor[:rank]


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
    rest = np.empty(d)
    for i in range(d):
        new, old = after[i], before[i]
        for j in range(i + 1):
            rest[j] = new[j] - old[j]
        for k in range(rank):
            weight, other = factor[k, i], factor[k]
            for j in range(i + 1):
                rest[j] -= weight * other[j]
        square = 0.0
        for j in range(i + 1):
            square += rest[j] * rest[j]
        if not square <= d * rounding * rounding:
            return -1
    return rank


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


@jit
def _products(factor: Floats, matrix: Floats) -> Floats:
    """(k, d) L M for a symmetric M, in one pass over it: k is too small for BLAS to be worth copying M for."""
    out = np.empty(factor.shape)
    for i in range(len(matrix)):
        row = matrix[i]
        for k in range(len(factor)):
            other, total = factor[k], 0.0
            for j in range(len(row)):
                total += row[j] * other[j]
            out[k, i] = total
    return out


@jit
def _subtract_squares(matrix: Floats, rows: Floats, moment: Floats, theta: Floats) -> None:
    """M -= W^T W, each entry rounded as the one opposite, and theta = M b on the way."""
    for i in range(len(matrix)):
        target = matrix[i]
        for k in range(len(rows)):
            weight, other = rows[k, i], rows[k]
            for j in range(len(target)):
                target[j] -= weight * other[j]
        total = 0.0
        for j in range(len(target)):
            total += target[j] * moment[j]
        theta[i] = total
