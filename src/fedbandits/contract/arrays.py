"""Names for array types, and the checks that stand at every door.

A check either returns quietly or raises `ValueError` saying what is wrong and what was expected; it
never changes its arguments, so a caller that checks first has changed nothing when it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Index = int | np.uint64
"""A place in an array. Unsigned in innermost loops: signed ones are tested for counting from the end."""
State = dict[str, Array]
"""A snapshot: named arrays and nothing else, so that it can be written as one `.npz` file."""
_OUTSIDE, _REPEATED = 1, 2


def check_who(who: IntArray, n: int) -> None:
    """`who` (w,) holds distinct indices of the n agents of a population."""
    if who.ndim != 1 or who.dtype.kind not in "iu":
        raise ValueError(f"who must be a one-dimensional integer array, got {_describe(who)}")
    fault = _who_fault(who, n)
    if fault == _OUTSIDE:
        raise ValueError(f"who holds indices outside 0..{n - 1}: {who.min()}..{who.max()}")
    if fault == _REPEATED:
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
    if rewards.shape != who.shape or rewards.dtype != np.float64:
        raise ValueError(f"rewards must be ({len(who)},) float64, got {_describe(rewards)}")
    if _feedback_is_sound(arms, picks, rewards):
        return
    if picks.min() < 0 or picks.max() >= arms.shape[1]:
        raise ValueError(f"picks must lie in 0..{arms.shape[1] - 1}, got {picks.min()}..{picks.max()}")
    check_finite("rewards", who, rewards)
    check_finite("chosen arms", who, arms[np.arange(len(who)), picks])


def check_finite(name: str, who: IntArray, rows: FloatArray) -> None:
    """Every number of `rows` (w, ...), one row per agent in `who`, is finite."""
    if len(rows) and rows.strides[0] == 0:  # one row, shown to all
        who, rows = who[:1], rows[:1]
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
    if scores.dtype == np.float64 and scores.flags.c_contiguous and scores.flags.writeable and scores.shape[1]:
        picks, sound = _first_highest(scores)
        if sound:
            return picks
    check_finite("scores of the arms", who, scores)
    return np.asarray(scores.argmax(axis=1))


def places(who: IntArray, n: int) -> IntArray | slice:
    """`who` (w,) as an index into arrays of n agents: a slice where it is everybody in order, which copies nothing."""
    return slice(None) if len(who) == n and _are_rising(who) else who


def shown_to(listeners: int, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The single row of each array (1, ...), shown to all listeners: nothing is copied until somebody keeps it."""
    return {name: _shown(listeners, array) for name, array in arrays.items()}


def _shown(listeners: int, array: Array) -> Array:
    """`numpy.broadcast_to`, which is slow for what is told in every round, of the single row of `array`."""
    if len(array) != 1 or not array.flags.c_contiguous:
        return np.broadcast_to(array, (listeners, *array.shape[1:]))
    shown: Array = np.ndarray((listeners, *array.shape[1:]), array.dtype, array, strides=(0, *array.strides[1:]))
    shown.flags.writeable = False
    return shown


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


# compiled, since they run at every step and each numpy reduction costs as much as a decision
@jit
def _who_fault(who: IntArray, n: int) -> int:
    previous = -1
    rising = True
    for agent in who:
        if agent < 0 or agent >= n:
            return _OUTSIDE
        rising = rising and agent > previous
        previous = agent
    if not rising:
        seen = np.zeros(n, np.bool_)
        for agent in who:
            if seen[agent]:
                return _REPEATED
            seen[agent] = True
    return 0


@jit
def _are_rising(who: IntArray) -> bool:
    found = True
    for a in range(1, len(who)):
        found &= who[a] > who[a - 1]
    return found


@jit
def _first_highest(scores: FloatArray) -> tuple[IntArray, bool]:
    """(w,) the first place of the highest, and whether all are finite."""
    picks, sound = np.zeros(len(scores), np.int64), True
    for i in range(len(scores)):
        best = scores[i, 0]
        for k in range(scores.shape[1]):
            sound &= abs(scores[i, k]) < np.inf
            if scores[i, k] > best:
                best, picks[i] = scores[i, k], k
    return picks, sound


@jit
def _feedback_is_sound(arms: FloatArray, picks: IntArray, rewards: FloatArray) -> bool:
    for i in range(len(picks)):
        if picks[i] < 0 or picks[i] >= arms.shape[1] or not abs(rewards[i]) < np.inf:
            return False
        for j in range(arms.shape[2]):
            if not abs(arms[i, picks[i], j]) < np.inf:
                return False
    return True


def _describe(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"
