"""Observations cut down to the bounds that noise is made for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Embedding, Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit, jit_part


class Limits(NamedTuple):
    """What observations are cut down to: rewards to [low, high], chosen arms to a norm of at most `arms`."""

    low: float
    high: float
    arms: float


def limits_of(problem: Problem) -> Limits:
    """As `problem` tells them; features have the norms they have."""
    known = problem.get(Range)
    low, high = (-np.inf, np.inf) if known is None else (known.low, known.high)
    longest = np.inf if problem.get(Embedding) is not None else problem.get(Norms, Norms()).arms
    return Limits(float(low), float(high), float(longest))


def clipped(
    problem: Problem, arms: FloatArray, picks: IntArray, rewards: FloatArray, admitted: BoolArray | None = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Arms (w, K, d), picks (w,) and rewards (w,), of which chosen arms have norms of at most L and rewards lie within
    their range, as `problem` tells both; those that are not `admitted` (w,) count for nothing.
    """
    rows, limits = np.arange(len(picks)), limits_of(problem)
    chosen, left = np.ascontiguousarray(arms[rows, picks]), np.clip(rewards, limits.low, limits.high)
    scale = _factors(chosen[:, :, None], limits.arms)
    if admitted is not None:
        scale = np.where(admitted, scale, 0.0)
        left = np.where(admitted, left, 0.0)
    if (scale == 1.0).all():
        return arms, picks, left
    arms = np.array(arms)
    arms[rows, picks] = chosen * scale[:, None]
    return arms, picks, left


@jit_part
def factor(arms: FloatArray, row: int, pick: int, longest: float) -> float:
    """By what the arm `pick` of `arms[row]` (d, K) is multiplied so that its norm is at most `longest`.

    Norms of arms are often 1 but for the last bit, which decides here: squares are added up in two lanes, in blocks of
    eight from their ends, as `numpy.einsum` does, so that the same arms are cut down as ever.
    """
    if longest == np.inf:
        return 1.0
    even, odd, d = 0.0, 0.0, arms.shape[1]
    whole = d - d % 8
    for first in range(0, whole, 8):
        for pair in range(3, -1, -1):
            j = first + 2 * pair
            even += arms[row, j, pick] * arms[row, j, pick]
            odd += arms[row, j + 1, pick] * arms[row, j + 1, pick]
    for j in range(whole, d):
        if j % 2 == 0:
            even += arms[row, j, pick] * arms[row, j, pick]
        else:
            odd += arms[row, j, pick] * arms[row, j, pick]
    norm = np.sqrt(even + odd)
    return longest / max(norm, 1e-300) if norm > longest else 1.0


@jit
def _factors(chosen: FloatArray, longest: float) -> FloatArray:
    """(w, d, 1) -> (w,)."""
    found = np.empty(len(chosen))
    for a in range(len(chosen)):
        found[a] = factor(chosen, a, 0, longest)
    return found
