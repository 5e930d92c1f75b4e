"""Triangular systems whose matrix is held row by row, for one right-hand side or many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, muladd, store, target, zero

FloatArray = NDArray[np.float64]

_ROWS = 4
"""Rows that are solved for together: what is read of earlier ones is used four times."""


@jit
def forward(factor: FloatArray, count: int, work: FloatArray, first: int = 0) -> None:
    """The first t = `count` rows of `work` (t, K) become L^-1 work, `factor` (t (t+1)/2,) holding the rows of L; those
    before `first` are so already.

    A number is (work[s, k] - (L[s, 0] work[0, k] + ... + L[s, s-1] work[s-1, k])) / L[s, s], added up in this order
    with each product fused: the same bits whichever columns stand beside it, and whichever rows were solved for before.
    """
    if factor.size < count * (count + 1) // 2 or work.shape[0] < count or first < 0 or first > count:
        raise ValueError("there are fewer rows than are to be solved for")  # addresses are not checked
    _solve(factor, first, count, work, np.empty((_ROWS, work.shape[1])))


@jit_part
def _solve(factor: FloatArray, first: int, count: int, work: FloatArray, given: FloatArray) -> None:
    """`given` (4, K) is room for the right-hand sides of rows: where tiles overlap, they are read twice."""
    lower, solved, right = address(factor, 0), target(work, 0), target(given, 0)
    whole = first + (count - first) // _ROWS * _ROWS
    for s in range(first, whole, _ROWS):
        _rows(lower, s, _ROWS, solved, work.shape[1], right)
    for s in range(whole, count):
        _rows(lower, s, 1, solved, work.shape[1], right)


@jit_part
def _rows(lower: Address, s: int, rows: int, solved: Address, width: int, right: Address) -> None:
    """One row or four, s being the first, in tiles of columns. The last tile is moved back to overlap its predecessor
    rather than be cut, unless there are fewer than four columns in all.
    """
    here = address(solved, s * width)
    for k in range(rows * width):
        store(right, k, load(0.0, here, k))
    k = 0
    while k < width:
        left = width - k
        if width >= 12 and left > 8:
            k = min(k, width - 12)
            _tile(zero(3), lower, s, rows, address(solved, k), width, address(right, k))
            k += 12
        elif width >= 8 and left > 4:
            k = min(k, width - 8)
            _tile(zero(2), lower, s, rows, address(solved, k), width, address(right, k))
            k += 8
        elif width >= 4:
            k = min(k, width - 4)
            _tile(zero(1), lower, s, rows, address(solved, k), width, address(right, k))
            k += 4
        else:
            _tile(0.0, lower, s, rows, address(solved, k), width, address(right, k))
            k += 1


@jit_part
def _tile(none: Value, lower: Address, s: int, rows: int, solved: Address, width: int, right: Address) -> None:
    if rows == _ROWS:
        _four(none, lower, s, solved, width, right)
    else:
        _one(none, lower, s, solved, width, right)


@jit_part
def _four(none: Value, lower: Address, s: int, solved: Address, width: int, right: Address) -> None:
    """As many columns of rows s to s + 3 as `none` has lanes."""
    row0 = address(lower, s * (s + 1) // 2)
    row1 = address(row0, s + 1)
    row2 = address(row1, s + 2)
    row3 = address(row2, s + 3)
    s0 = none
    s1 = none
    s2 = none
    s3 = none
    at = solved
    for r in range(s):
        x = load(none, at, 0)
        s0 = muladd(load(0.0, row0, r), x, s0)
        s1 = muladd(load(0.0, row1, r), x, s1)
        s2 = muladd(load(0.0, row2, r), x, s2)
        s3 = muladd(load(0.0, row3, r), x, s3)
        at = address(at, width)
    x = _last(right, 0, none, s0, load(0.0, row0, s))
    store(at, 0, x)
    s1 = muladd(load(0.0, row1, s), x, s1)
    s2 = muladd(load(0.0, row2, s), x, s2)
    s3 = muladd(load(0.0, row3, s), x, s3)
    x = _last(right, width, none, s1, load(0.0, row1, s + 1))
    store(at, width, x)
    s2 = muladd(load(0.0, row2, s + 1), x, s2)
    s3 = muladd(load(0.0, row3, s + 1), x, s3)
    x = _last(right, 2 * width, none, s2, load(0.0, row2, s + 2))
    store(at, 2 * width, x)
    s3 = muladd(load(0.0, row3, s + 2), x, s3)
    store(at, 3 * width, _last(right, 3 * width, none, s3, load(0.0, row3, s + 3)))


@jit_part
def _one(none: Value, lower: Address, s: int, solved: Address, width: int, right: Address) -> None:
    """As many columns of row s as `none` has lanes."""
    row = address(lower, s * (s + 1) // 2)
    found = none
    at = solved
    for r in range(s):
        found = muladd(load(0.0, row, r), load(none, at, 0), found)
        at = address(at, width)
    store(at, 0, _last(right, 0, none, found, load(0.0, row, s)))


@jit_part
def _last(right: Address, offset: int, none: Value, found: Value, diagonal: float) -> Value:
    """What is left of the right-hand side, over the diagonal."""
    return mul(1.0 / diagonal, add(load(none, right, offset), mul(-1.0, found)))
