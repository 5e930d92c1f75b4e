"""Sums over agents of large arrays, in one pass: numpy's own take several, and as many temporary arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.recycled import read_only
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, store, target, zero

Floats: TypeAlias = NDArray[np.float64]

_PIECE = 1024
"""Numbers of each agent that are added up together: few enough to stay in the fastest cache."""


def total_of(before: Floats, shares: Floats, out: Floats) -> None:
    """out = before + sum_i shares[i], shares first and in the order of agents; shapes (...), (n, ...) and (...)."""
    if before.shape != out.shape or not before.flags.c_contiguous:
        raise ValueError(f"shares {shares.shape} and {before.shape} do not add up to {out.shape}")
    _total_of(read_only(before).reshape(-1), _flat(out, shares), out.reshape(-1))


def mean_of(shares: Floats, out: Floats) -> None:
    """out = (1/n) sum_i shares[i], in the order of agents; shapes (n, ...), n >= 1, and (...)."""
    _mean_of(_flat(out, shares), out.reshape(-1))


def total_with_squares(before: Floats, x: Floats, out: Floats) -> None:
    """out = before + sum_i x_i x_i^T for x (n, d): the same bits as `total_of` of these squares, which nobody writes
    down; shapes (d, d) and (d, d).
    """
    d = x.shape[1]
    if before.shape != (d, d) or out.shape != (d, d) or not before.flags.c_contiguous or not out.flags.c_contiguous:
        raise ValueError(f"squares of {x.shape} and {before.shape} do not add up to {out.shape}")
    _total_with_squares(read_only(before), np.ascontiguousarray(x), out)


def _flat(total: Floats, shares: Floats) -> Floats:
    if shares.shape[1:] != total.shape or not total.flags.c_contiguous:
        raise ValueError(f"shares {shares.shape} do not add up to {total.shape}")
    return read_only(np.ascontiguousarray(shares)).reshape(len(shares), -1)


@jit
def _total_with_squares(before: Floats, x: Floats, out: Floats) -> None:
    count, d = x.shape
    held, points, found = address(before, 0), address(x, 0), target(out, 0)
    whole = d - d % 4
    for i in range(0, whole, 4):
        row, sums, own = address(held, i * d), address(found, i * d), address(points, i)
        j = 0
        while j + 8 <= d:
            _squares_of_four(zero(2), row, own, address(points, j), d, count, j, sums)
            j += 8
        while j < d:
            _squares_of_four(0.0, row, own, address(points, j), d, count, j, sums)
            j += 1
    for i in range(whole, d):
        for j in range(d):
            square = 0.0
            for k in range(count):
                square = add(square, mul(load(0.0, points, k * d + i), load(0.0, points, k * d + j)))
            store(found, i * d + j, add(load(0.0, held, i * d + j), square))


@jit_part
def _squares_of_four(
    none: Value, held: Address, own: Address, points: Address, d: int, count: int, j: int, out: Address
) -> None:
    """Four rows of the total, over the columns from j on that `none` spans. Products are rounded before they are added:
    whoever adds up what was written down cannot do otherwise.
    """
    a, b, c, e = none, none, none, none
    for _ in range(count):
        x = load(none, points, 0)
        a, b = add(a, mul(load(0.0, own, 0), x)), add(b, mul(load(0.0, own, 1), x))
        c, e = add(c, mul(load(0.0, own, 2), x)), add(e, mul(load(0.0, own, 3), x))
        own, points = address(own, d), address(points, d)
    store(out, j, add(load(none, held, j), a))
    store(out, d + j, add(load(none, held, d + j), b))
    store(out, 2 * d + j, add(load(none, held, 2 * d + j), c))
    store(out, 3 * d + j, add(load(none, held, 3 * d + j), e))


@jit_part
def _sum_piece(shares: Floats, begin: int, end: int, piece: Floats) -> None:
    first = shares[0, begin:end]
    for k in range(end - begin):
        piece[k] = first[k]
    for i in range(1, len(shares)):
        row = shares[i, begin:end]
        for k in range(end - begin):
            piece[k] += row[k]


@jit
def _total_of(before: Floats, shares: Floats, out: Floats) -> None:
    piece = np.empty(_PIECE)
    for begin in range(0, len(out), _PIECE):
        end = min(begin + _PIECE, len(out))
        _sum_piece(shares, begin, end, piece)
        here, held = out[begin:end], before[begin:end]
        for k in range(end - begin):
            here[k] = held[k] + piece[k]


@jit
def _mean_of(shares: Floats, out: Floats) -> None:
    piece = np.empty(_PIECE)
    share = 1.0 / len(shares)  # divisions would take longer than all the rest
    for begin in range(0, len(out), _PIECE):
        end = min(begin + _PIECE, len(out))
        _sum_piece(shares, begin, end, piece)
        here = out[begin:end]
        for k in range(end - begin):
            here[k] = share * piece[k]
