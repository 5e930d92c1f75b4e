"""Choices of agents who may act on what they are told alone, and choose at random until somebody tells them anything.

`told` (w,) says which of the agents `who` (w,) have been told something.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_finite, first_highest
from fedbandits.contract.streams import Streams, WordArray, next_uniform
from fedbandits.linalg.jit import jit_inside

Choose = Callable[[IntArray, FloatArray], IntArray]
"""Agents (w,) and arms (w, K, d) -> (w,) what those who know something choose."""


def choices(told: BoolArray, who: IntArray, arms: FloatArray, choose: Choose, rng: Streams) -> IntArray:
    """(w,) what `choose` says where something is known, and any of the arms, drawn from `rng`, elsewhere."""
    if told.all():
        return choose(who, arms)
    check_finite("arms", who, arms)  # before the streams move on
    picks = np.empty(len(who), dtype=np.int64)
    if told.any():
        picks[told] = choose(who[told], arms[told])
    drawn = rng.uniform(who[~told])
    picks[~told] = np.minimum((drawn * arms.shape[1]).astype(np.int64), arms.shape[1] - 1)
    return picks


@jit_inside
def all_finite(arms: FloatArray, row: int) -> bool:
    """Whether everything in `arms[row]` (d, K) is finite; asked before a stream moves on."""
    for j in range(arms.shape[1]):
        for k in range(arms.shape[2]):
            if not abs(arms[row, j, k]) < np.inf:
                return False
    return True


@jit_inside
def drawn(words: WordArray, i: int, arms: FloatArray, row: int) -> int:
    """What `choices` draws for agent i among `arms[row]` (d, K), `words` (n, 4) being those of its stream; -1 where
    something is not finite.
    """
    count = arms.shape[2]
    return int(min(next_uniform(words, i) * count, count - 1.0)) if all_finite(arms, row) else -1


def compared(told: BoolArray, scores: FloatArray) -> FloatArray:
    """(w, K) `scores`, NaN where nothing is compared."""
    return np.where(told[:, None], scores, np.nan)


def chances(told: BoolArray, who: IntArray, found: FloatArray | None, scores: FloatArray | None) -> FloatArray | None:
    """(w, K) with which probability each arm is taken, `found` and `scores` being what agents who know something tell;
    None where nobody draws, or nobody can tell.
    """
    if told.all() or (found is None and scores is None):
        return found
    if found is None:  # who is told takes the best arm for certain
        assert scores is not None
        found = np.zeros(scores.shape)
        found[np.arange(len(who)), first_highest(who, scores)] = 1.0
    return np.where(told[:, None], found, 1.0 / found.shape[1])
