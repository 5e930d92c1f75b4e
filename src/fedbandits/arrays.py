"""Names for array types, and the checks that stand at every door.

A check either returns quietly or raises `ValueError` saying what is wrong and what was expected; it
never changes its arguments, so a caller that checks first has changed nothing when it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
State = dict[str, Array]
"""A snapshot: named arrays and nothing else, so that it can be written as one `.npz` file."""


def check_who(who: IntArray, n: int) -> None:
    """`who` (w,) holds distinct indices of the n agents of a population."""
    if who.ndim != 1 or who.dtype.kind not in "iu":
        raise ValueError(f"who must be a one-dimensional integer array, got {_describe(who)}")
    if len(who) and (who.min() < 0 or who.max() >= n):
        raise ValueError(f"who holds indices outside 0..{n - 1}: {who.min()}..{who.max()}")
    if len(who) > 1 and not (np.diff(who) > 0).all() and len(np.unique(who)) != len(who):
        raise ValueError("who names an agent twice; an agent takes one decision per step")


def check_arms(who: IntArray, arms: FloatArray, n: int, dim: int) -> None:
    """`arms` (w, K, d) shows each agent in `who` at least one arm of the right dimension.

    Values are checked by `choose` itself: an arm that is not finite has no score, and the kernels say so.
    """
    check_who(who, n)
    if arms.ndim != 3 or arms.shape[0] != len(who) or arms.shape[2] != dim:
        raise ValueError(f"arms must have shape (w, K, d) = ({len(who)}, K, {dim}), got {_describe(arms)}")
    if arms.shape[1] == 0:
        raise ValueError("arms shows no arm at all (K = 0); every agent needs at least one")
    if arms.dtype != np.float64:
        raise ValueError(f"arms must be float64, got {arms.dtype}")


def check_feedback(who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray, n: int, dim: int) -> None:
    """`picks` (w,) are indices of shown, finite arms and `rewards` (w,) are finite, one per agent in `who`."""
    check_arms(who, arms, n, dim)
    if picks.shape != who.shape or picks.dtype.kind not in "iu":
        raise ValueError(f"picks must be ({len(who)},) integers, got {_describe(picks)}")
    if len(picks) and (picks.min() < 0 or picks.max() >= arms.shape[1]):
        raise ValueError(f"picks must lie in 0..{arms.shape[1] - 1}, got {picks.min()}..{picks.max()}")
    if rewards.shape != who.shape or rewards.dtype != np.float64:
        raise ValueError(f"rewards must be ({len(who)},) float64, got {_describe(rewards)}")
    check_finite("rewards", who, rewards)
    check_finite("chosen arms", who, arms[np.arange(len(who)), picks])


def check_finite(name: str, who: IntArray, rows: FloatArray) -> None:
    """Every number of `rows` (w, ...), one row per agent in `who`, is finite."""
    finite = np.isfinite(rows)
    if not finite.all():
        guilty = who[~finite.reshape(len(who), -1).all(axis=1)]
        raise ValueError(f"{name} of agents {guilty[:5].tolist()} are not finite")


def decided(who: IntArray, picks: IntArray) -> IntArray:
    """`picks` (w,), unless the kernels left an agent undecided (-1) because a score is not finite."""
    if len(picks) and picks.min() < 0:
        raise ValueError(f"arms of agents {who[picks < 0][:5].tolist()} are not finite: they have no score")
    return picks


def first_highest(who: IntArray, scores: FloatArray) -> IntArray:
    """(w, K) scores -> (w,) the index of the highest, the lowest such index on exact ties."""
    check_finite("scores of the arms", who, scores)
    return np.asarray(scores.argmax(axis=1))


def check_state(state: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """`state` has the names, shapes and types of `expected`."""
    if missing := sorted(expected.keys() - state.keys()):
        raise ValueError(f"the snapshot lacks {', '.join(missing)}")
    if unknown := sorted(state.keys() - expected.keys()):
        raise ValueError(f"the snapshot holds unknown {', '.join(unknown)}")
    for name, held in expected.items():
        given = state[name]
        if given.shape != held.shape or given.dtype != held.dtype:
            raise ValueError(f"the snapshot's {name} is {_describe(given)}, this population needs {_describe(held)}")


def _describe(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"
