"""Observations cut down to the bounds that noise is made for."""

from __future__ import annotations

import numpy as np

from fedbandits.channel.stage import Observed
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Embedding, Norms, Range
from fedbandits.contract.problem import Problem


def clipped(
    problem: Problem, arms: FloatArray, picks: IntArray, rewards: FloatArray, admitted: BoolArray | None = None
) -> Observed:
    """Arms (w, K, d), picks (w,) and rewards (w,), of which chosen arms have norms of at most L and rewards lie within
    their range, as `problem` tells both; those that are not `admitted` (w,) count for nothing.
    """
    rows = np.arange(len(picks))
    chosen, known = arms[rows, picks], problem.get(Range)
    left = rewards if known is None else np.clip(rewards, known.low, known.high)
    scale = np.ones(len(picks))
    if problem.get(Embedding) is None:  # features have the norms they have
        norms = np.sqrt(np.einsum("wd,wd->w", chosen, chosen))
        longest = problem.get(Norms, Norms()).arms
        scale = np.where(norms > longest, longest / np.maximum(norms, 1e-300), 1.0)
    if admitted is not None:
        scale = np.where(admitted, scale, 0.0)
        left = np.where(admitted, left, 0.0)
    if (scale == 1.0).all():
        return arms, picks, left
    arms = np.array(arms)
    arms[rows, picks] = chosen * scale[:, None]
    return arms, picks, left
