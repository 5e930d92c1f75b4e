"""Least-squares value iteration: sums of targets, backwards from the last stage, agent by agent.

Notation. For an arm x in stage h the optimistic value is Q_h(x) = min(<w_h, x> + beta ||x||_{L_h^-1}, c_h), that of a
view is V_h = max Q_h over its arms, or b_h where that is larger, and V_H = 0. Regressions of agent i and stage h are
row i H + h of `weights` (n H, d) and `inverses` (n H, d, d). Transitions are those of `models.transitions`: tuples of
arrays, parts being summed up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_exactly
from fedbandits.linalg.kernels import axpy, dot, product
from fedbandits.linalg.simd import Address, address, load, muladd, target

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_THIN = 4
"""An arm is thin, and its zeros are passed over, where it has at least so many numbers for each that is not zero:
features of tables."""


@jit_exactly
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


@jit_exactly
def _index(weights: Address, inverse: Address, beta: float, x: Address, d: int, places: Ints, moved: Address) -> float:
    """<w, x> + beta ||x||_{L^-1}; `moved` is room for d numbers."""
    held = _places(x, d, places)
    if held < 0:
        product(inverse, x, d, moved)
        dense: float = muladd(beta, np.sqrt(max(dot(moved, x, d), 0.0)), dot(weights, x, d))
        return dense
    mean, square = 0.0, 0.0
    for a in range(held):
        j = places[a]
        row = address(inverse, j * d)
        inner = 0.0
        for b in range(held):
            inner = muladd(load(0.0, row, places[b]), load(0.0, x, places[b]), inner)
        square = muladd(load(0.0, x, j), inner, square)
        mean = muladd(load(0.0, weights, j), load(0.0, x, j), mean)
    thin: float = muladd(beta, np.sqrt(max(square, 0.0)), mean)
    return thin


@jit_exactly
def _value(
    weights: Address,
    inverse: Address,
    beta: float,
    limits: tuple[float, float],
    arms: Address,
    count: int,
    d: int,
    places: Ints,
    moved: Address,
) -> float:
    """max over `count` arms of d numbers of the optimistic value, cut off at `limits` (b, c)."""
    best = -np.inf
    for k in range(count):
        best = max(best, _index(weights, inverse, beta, address(arms, k * d), d, places, moved))
    return max(best, limits[0]) if best < limits[1] else limits[1]  # what is no number is not below either


@jit_exactly
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
    values: Floats,
    places: Ints,
    room: Floats,
    out: Address,
) -> None:
    """Add the sum of phi (r + V(x')) over the transitions in row `at`, regressions of the next stage being those of
    `row`, and beta negative where there is none. `values` is room for one number for each view, `room` for d.
    """
    arms, ends, seen, _ = views
    arm, to, number, reward, rows = kept
    d = arms.shape[2]
    begins = agent * arms.shape[1]
    w, inverse, moved = address(weights, row * d), address(inverses, row * d * d), target(room, 0)
    if rows[at] > 0:
        values[: seen[agent]] = np.nan
    for k in range(rows[at]):
        times, sum_of = 0, 0.0
        for part in range(number.shape[2]):
            times += number[at, k, part]
            sum_of += reward[at, k, part]
        if times == 0:
            continue
        view = to[at, k]
        if view >= 0 and beta >= 0.0:
            if np.isnan(values[view]):
                begin = ends[agent, view - 1] if view > 0 else 0
                count = ends[agent, view] - begin
                shown = address(arms, (begins + begin) * d)
                values[view] = _value(w, inverse, beta, limits, shown, count, d, places, moved)
            sum_of = muladd(float(times), values[view], sum_of)
        axpy(sum_of, address(arms, (begins + arm[at, k]) * d), out, d)


@jit_exactly
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
    values, places, room = np.empty(views[1].shape[1]), np.empty(d, np.int64), np.empty(d)
    _sums_into(views, kept, who, stage, length, weights, inverses, beta, limits, values, places, room, sums)
    return sums


@jit_exactly
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
    values: Floats,
    places: Ints,
    room: Floats,
    sums: Floats,
) -> None:
    views, kept = borrowed(views), borrowed(kept)
    d = sums.shape[1]
    last = stage == length - 1
    ahead = min(stage + 1, length - 1)
    cut = (0.0, 0.0) if last else (limits[0, ahead], limits[1, ahead])
    bonus = -1.0 if last else beta
    for i in range(len(who)):
        at, row, out = who[i] * length + stage, who[i] * length + ahead, target(sums, i * d)
        _add_targets(views, kept, who[i], at, weights, inverses, row, bonus, cut, values, places, room, out)


@jit_exactly
def plan(known: Any, who: Ints, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats) -> None:
    """Write w_h = L_h^-1 sum phi (r + V_{h+1}(x')) of each of `who` into `weights`, for h = H-1, ..., 0.

    `known` are views and transitions of what agents have done themselves, and views and transitions of what they were
    told.
    """
    for a in who:
        plan_one(known, a, length, inverses, beta, most, weights)


@jit_exactly
def plan_one(known: Any, a: int, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats) -> None:
    """What `plan` does for agent a, as part of a longer compiled loop."""
    d = weights.shape[1]
    values = np.empty(max(known[0][1].shape[1], known[2][1].shape[1]))
    _plan_into(known, a, length, inverses, beta, most, weights, values, np.empty(d, np.int64), np.empty(2 * d))


@jit_exactly
def _plan_into(
    known: Any,
    a: int,
    length: int,
    inverses: Floats,
    beta: float,
    most: Floats,
    weights: Floats,
    values: Floats,
    places: Ints,
    room: Floats,
) -> None:
    own_views, own, told_views, told = borrowed(known)
    d = weights.shape[1]
    moment = target(room, d)
    for back in range(length):
        at = a * length + length - 1 - back
        row = at + (1 if back > 0 else 0)
        bonus, cut = beta if back > 0 else -1.0, (-np.inf, most[row - a * length])
        for j in range(d):
            room[d + j] = 0.0
        _add_targets(own_views, own, a, at, weights, inverses, row, bonus, cut, values, places, room, moment)
        _add_targets(told_views, told, a, at, weights, inverses, row, bonus, cut, values, places, room, moment)
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
