"""Triangular systems whose matrix is held row by row, for many right-hand sides at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit_in_order

FloatArray = NDArray[np.float64]


@jit_in_order
def forward(factor: FloatArray, count: int, work: FloatArray) -> None:
    """The first t = `count` rows of `work` (t, K) become L^-1 work, `factor` (t (t+1)/2,) holding the rows of L.

    Four rows are taken out of four others at a time: what is read is used four times, and a sum written back once, at
    23 to 27 Gflop/s for 20 right-hand sides where 40 are possible. Columns that are equal stay so wherever they stand.
    """
    width = work.shape[1]
    whole = count - count % 4
    for s in range(0, whole, 4):
        first = s * (s + 1) // 2
        second = first + s + 1
        third = second + s + 2
        fourth = third + s + 3
        for r in range(0, s, 4):
            a0, b0, c0, d0 = factor[first + r], factor[first + r + 1], factor[first + r + 2], factor[first + r + 3]
            a1, b1, c1, d1 = factor[second + r], factor[second + r + 1], factor[second + r + 2], factor[second + r + 3]
            a2, b2, c2, d2 = factor[third + r], factor[third + r + 1], factor[third + r + 2], factor[third + r + 3]
            a3, b3, c3, d3 = factor[fourth + r], factor[fourth + r + 1], factor[fourth + r + 2], factor[fourth + r + 3]
            for k in range(width):
                w0, w1, w2, w3 = work[r, k], work[r + 1, k], work[r + 2, k], work[r + 3, k]
                work[s, k] -= (a0 * w0 + b0 * w1) + (c0 * w2 + d0 * w3)
                work[s + 1, k] -= (a1 * w0 + b1 * w1) + (c1 * w2 + d1 * w3)
                work[s + 2, k] -= (a2 * w0 + b2 * w1) + (c2 * w2 + d2 * w3)
                work[s + 3, k] -= (a3 * w0 + b3 * w1) + (c3 * w2 + d3 * w3)
        for t in range(s, s + 4):
            _finish(factor, t, s, work)
    for s in range(whole, count):
        start = s * (s + 1) // 2
        for r in range(0, whole, 4):
            a, b = factor[start + r], factor[start + r + 1]
            c, d = factor[start + r + 2], factor[start + r + 3]
            for k in range(width):
                work[s, k] -= (a * work[r, k] + b * work[r + 1, k]) + (c * work[r + 2, k] + d * work[r + 3, k])
        _finish(factor, s, whole, work)


@jit_in_order
def _finish(factor: FloatArray, s: int, first: int, work: FloatArray) -> None:
    """Row s, from which all rows before `first` have been taken out."""
    start = s * (s + 1) // 2
    for r in range(first, s):
        for k in range(work.shape[1]):
            work[s, k] -= factor[start + r] * work[r, k]
    for k in range(work.shape[1]):
        work[s, k] /= factor[start + s]
