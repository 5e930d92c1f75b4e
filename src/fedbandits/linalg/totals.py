"""Sums over agents of large arrays, in one pass: numpy's own take several, and as many temporary arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit

Floats: TypeAlias = NDArray[np.float64]

_PIECE = 1024
"""Numbers of each agent that are added up together: few enough to stay in the fastest cache."""


def add_total(total: Floats, shares: Floats) -> None:
    """total += sum_i shares[i], in the order of agents, in place; shapes (...) and (n, ...)."""
    _add_total(total.reshape(-1), _flat(total, shares))


def mean_of(shares: Floats, out: Floats) -> None:
    """out = (1/n) sum_i shares[i], in the order of agents; shapes (n, ...), n >= 1, and (...)."""
    _mean_of(_flat(out, shares), out.reshape(-1))


def _flat(total: Floats, shares: Floats) -> Floats:
    if shares.shape[1:] != total.shape or not total.flags.c_contiguous:
        raise ValueError(f"shares {shares.shape} do not add up to {total.shape}")
    return np.ascontiguousarray(shares).reshape(len(shares), -1)


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
def _add_total(total: Floats, shares: Floats) -> None:
    piece = np.empty(_PIECE)
    for begin in range(0, len(total), _PIECE):
        end = min(begin + _PIECE, len(total))
        _sum_piece(shares, begin, end, piece)
        here = total[begin:end]
        for k in range(end - begin):
            here[k] += piece[k]


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
