"""Least-squares value iteration: sums of targets, backwards from the last stage, agent by agent.

Notation. For an arm x in stage h the optimistic value is Q_h(x) = min(<w_h, x> + beta ||x||_{L_h^-1}, c_h), that of a
view is V_h = max Q_h over its arms, or b_h where that is larger, and V_H = 0. Regressions of agent i and stage h are
row i H + h of `weights` (n H, d) and `inverses` (n H, d, d). Transitions are those of `models.transitions`: tuples of
arrays, parts being summed up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import axpy, product, score_by_four, score_by_two
from fedbandits.linalg.simd import REGISTER, Address, address, load, muladd, store, target, zero

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_THIN = 4
"""An arm is thin, and its zeros are passed over, where it has at least so many numbers for each that is not zero:
features of tables."""
_WIDE = 5 * REGISTER
"""Arms that are scored at once, of whichever views."""


class Room(NamedTuple):
    """Where value iteration writes in between."""

    values: Floats
    """(views,) the highest index of every view; NaN where it is not asked for."""
    places: Ints
    """(d,) which numbers of a thin arm are not zero."""
    lanes: Floats
    """(d, _WIDE) arms that wait for their index, arm index last."""
    scores: Floats
    """(_WIDE,) their indices."""
    owners: Ints
    """(_WIDE,) their views."""
    moment: Floats
    """(d,) sums of targets."""


@jit_part
def _room(views: int, d: int) -> Room:
    lanes = np.zeros((d, _WIDE))  # some of them may be scored before anything was written there
    places, owners = np.empty(d, np.int64), np.empty(_WIDE, np.int64)
    return Room(np.empty(views), places, lanes, np.empty(_WIDE), owners, np.empty(d))


@jit_part
def _places(x: Address, d: int, places: Ints) -> int:
    """How many numbers of a thin arm are not zero, and which, in the first of `places` (d,); -1 if it is not thin."""
    held = 0
    for j in range(d):
        if load(0.0, x, j) != 0.0:
            places[held] = j
            held += 1
            if _THIN * held > d:
                return -1
    return held


@jit_part
def _thin_index(weights: Address, inverse: Address, beta: float, x: Address, d: int, places: Ints, held: int) -> float:
    """<w, x> + beta ||x||_{L^-1} of an arm of which the first `held` of `places` are not zero."""
    mean, square = 0.0, 0.0
    for a in range(held):
        j = places[a]
        row = address(inverse, j * d)
        inner = 0.0
        for b in range(held):
            inner = muladd(load(0.0, row, places[b]), load(0.0, x, places[b]), inner)
        square = muladd(load(0.0, x, j), inner, square)
        mean = muladd(load(0.0, weights, j), load(0.0, x, j), mean)
    index: float = muladd(beta, np.sqrt(max(square, 0.0)), mean)
    return index


@jit_part
def _score_waiting(weights: Address, inverse: Address, beta: float, d: int, waiting: int, room: Room) -> None:
    """The indices of the first `waiting` arms in `room.lanes`, into the highest of their views. What an arm gets does
    not depend, to the last bit, on who waits with it.
    """
    lanes, scores = address(room.lanes, 0), target(room.scores, 0)
    if waiting <= REGISTER:
        score_by_four(zero(1), inverse, weights, beta, lanes, _WIDE, d, scores)
    elif waiting <= 2 * REGISTER:
        score_by_four(zero(2), inverse, weights, beta, lanes, _WIDE, d, scores)
    elif waiting <= 3 * REGISTER:
        score_by_four(zero(3), inverse, weights, beta, lanes, _WIDE, d, scores)
    else:
        score_by_two(zero(5), inverse, weights, beta, lanes, _WIDE, d, scores)
    for c in range(waiting):
        view = room.owners[c]
        room.values[view] = max(room.values[view], room.scores[c])


@jit_part
def _find_values(
    views: Any, kept: Any, agent: int, at: int, weights: Address, inverse: Address, beta: float, room: Room
) -> None:
    """The highest index of every view that transitions in row `at` have led to, into `room.values`."""
    arms, ends, seen, _ = views
    _, to, number, _, rows = kept
    d = arms.shape[2]
    lanes = target(room.lanes, 0)
    room.values[: seen[agent]] = np.nan
    waiting = 0
    for k in range(rows[at]):
        times = 0
        for part in range(number.shape[2]):
            times += number[at, k, part]
        view = to[at, k]
        if times == 0 or view < 0 or not np.isnan(room.values[view]):
            continue
        room.values[view] = -np.inf
        for place in range(ends[agent, view - 1] if view > 0 else 0, ends[agent, view]):
            x = address(arms, (agent * arms.shape[1] + place) * d)
            held = _places(x, d, room.places)
            if held >= 0:
                index = _thin_index(weights, inverse, beta, x, d, room.places, held)
                room.values[view] = max(room.values[view], index)
                continue
            for j in range(d):
                store(lanes, j * _WIDE + waiting, load(0.0, x, j))
            room.owners[waiting] = view
            waiting += 1
            if waiting == _WIDE:
                _score_waiting(weights, inverse, beta, d, waiting, room)
                waiting = 0
    if waiting > 0:
        _score_waiting(weights, inverse, beta, d, waiting, room)


@jit_part
def _add_targets(
    views: Any,
    kept: Any,
    agent: int,
    at: int,
    weights: Floats,
    inverses: Floats,
    row: int,
    beta: float,
    limits: tuple[float, float],
    room: Room,
    out: Address,
) -> None:
    """Add the sum of phi (r + V(x')) over the transitions in row `at`, regressions of the next stage being those of
    `row`, beta negative where there is none, and values cut off at `limits` (b, c).
    """
    arms = views[0]
    arm, to, number, reward, rows = kept
    d = arms.shape[2]
    if rows[at] > 0 and beta >= 0.0:
        ahead = address(weights, row * d), address(inverses, row * d * d)
        _find_values(views, kept, agent, at, ahead[0], ahead[1], beta, room)
    for k in range(rows[at]):
        times, total = 0, 0.0
        for part in range(number.shape[2]):
            times += number[at, k, part]
            total += reward[at, k, part]
        if times == 0:
            continue
        if to[at, k] >= 0 and beta >= 0.0:
            best = room.values[to[at, k]]
            value = max(best, limits[0]) if best < limits[1] else limits[1]  # what is no number is not below either
            total = muladd(float(times), value, total)
        axpy(total, address(arms, (agent * arms.shape[1] + arm[at, k]) * d), out, d)


@jit
def target_sums(
    views: Any,
    kept: Any,
    who: Ints,
    stage: int,
    length: int,
    weights: Floats,
    inverses: Floats,
    beta: float,
    limits: Floats,
) -> Floats:
    """(w, d) the sum of phi (r + V_{stage+1}(x')) over all transitions of each of `who` in `stage`, V being that of the
    regressions given; `limits` (2, H) are the b_h and the c_h.
    """
    d = views[0].shape[2]
    sums = np.zeros((len(who), d))
    _sums_into(views, kept, who, stage, length, weights, inverses, beta, limits, _room(views[1].shape[1], d), sums)
    return sums


@jit_part
def _sums_into(
    views: Any,
    kept: Any,
    who: Ints,
    stage: int,
    length: int,
    weights: Floats,
    inverses: Floats,
    beta: float,
    limits: Floats,
    room: Room,
    sums: Floats,
) -> None:
    views, kept, room = borrowed(views), borrowed(kept), borrowed(room)
    d = sums.shape[1]
    last = stage == length - 1
    ahead = min(stage + 1, length - 1)
    cut = (0.0, 0.0) if last else (limits[0, ahead], limits[1, ahead])
    bonus = -1.0 if last else beta
    for i in range(len(who)):
        at, row, out = who[i] * length + stage, who[i] * length + ahead, target(sums, i * d)
        _add_targets(views, kept, who[i], at, weights, inverses, row, bonus, cut, room, out)


@jit
def plan(known: Any, who: Ints, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats) -> None:
    """Write w_h = L_h^-1 sum phi (r + V_{h+1}(x')) of each of `who` into `weights`, for h = H-1, ..., 0.

    `known` are views and transitions of what agents have done themselves, and views and transitions of what they were
    told.
    """
    for a in who:
        plan_one(known, a, length, inverses, beta, most, weights)


@jit_part
def plan_one(known: Any, a: int, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats) -> None:
    """What `plan` does for agent a, as part of a longer compiled loop."""
    views = max(known[0][1].shape[1], known[2][1].shape[1])
    _plan_into(known, a, length, inverses, beta, most, weights, _room(views, weights.shape[1]))


@jit_part
def _plan_into(
    known: Any, a: int, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats, room: Room
) -> None:
    own_views, own, told_views, told = borrowed(known)
    room = borrowed(room)
    d = weights.shape[1]
    moment = target(room.moment, 0)
    for back in range(length):
        at = a * length + length - 1 - back
        row = at + (1 if back > 0 else 0)
        bonus, cut = beta if back > 0 else -1.0, (-np.inf, most[row - a * length])
        room.moment[:] = 0.0
        _add_targets(own_views, own, a, at, weights, inverses, row, bonus, cut, room, moment)
        _add_targets(told_views, told, a, at, weights, inverses, row, bonus, cut, room, moment)
        product(address(inverses, at * d * d), moment, d, target(weights, at * d))


@jit
def visit_sums(arms: Floats, stage: Ints, arm: Ints, number: Ints, many: Ints, length: int) -> tuple[Floats, Floats]:
    """(w H, d, d) the sum of phi phi^T over the transitions of each list and stage, and (w H,) their numbers."""
    d = arms.shape[2]
    gram = np.zeros((len(many) * length, d, d))
    count = np.zeros(len(many) * length)
    for i in range(len(many)):
        for m in range(many[i]):
            at = i * length + stage[i, m]
            times = float(number[i, m])
            count[at] += times
            x = arms[i, arm[i, m]]
            for j in range(d):
                if x[j] != 0.0:
                    for k in range(d):
                        gram[at, j, k] += times * x[j] * x[k]
    return gram, count
