"""Sums over agents of large arrays, in one pass: numpy's own take several, and as many temporary arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit
from fedbandits.linalg.recycled import read_only

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


def _flat(total: Floats, shares: Floats) -> Floats:
    if shares.shape[1:] != total.shape or not total.flags.c_contiguous:
        raise ValueError(f"shares {shares.shape} do not add up to {total.shape}")
    return read_only(np.ascontiguousarray(shares)).reshape(len(shares), -1)


@jit
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
