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

from fedbandits.linalg.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def _norm(inverse: Floats, x: Floats, places: Ints) -> float:
    """x^T inverse x; `places` is room for d numbers. Zeros cost nothing, which is what features of tables are."""
    d = len(x)
    held = 0
    for j in range(d):
        if x[j] != 0.0:
            places[held] = j
            held += 1
    total = 0.0
    if held == d:
        for j in range(d):
            inner = 0.0
            for k in range(d):
                inner += inverse[j, k] * x[k]
            total += x[j] * inner
        return total
    for a in range(held):
        j = places[a]
        inner = 0.0
        for b in range(held):
            inner += inverse[j, places[b]] * x[places[b]]
        total += x[j] * inner
    return total


@jit
def _value(
    weights: Floats, inverse: Floats, beta: float, limits: tuple[float, float], arms: Floats, places: Ints
) -> float:
    """max over `arms` (K, d) of the optimistic value, cut off at `limits` (b, c)."""
    best = -np.inf
    for k in range(len(arms)):
        index = 0.0
        for j in range(arms.shape[1]):
            index += weights[j] * arms[k, j]
        best = max(best, index + beta * np.sqrt(max(_norm(inverse, arms[k], places), 0.0)))
    return max(best, limits[0]) if best < limits[1] else limits[1]  # what is no number is not below either


@jit
def _add_targets(
    views: Any, kept: Any, agent: int, at: int, ahead: Any, values: Floats, places: Ints, out: Floats
) -> None:
    """Add the sum of phi (r + V(x')) over the transitions in row `at`; `ahead` is (w, L^-1, beta, (b, c)) of the next
    stage, beta being negative where there is none. `values` is room for one number for each view.
    """
    arms, ends, _, _ = views
    arm, to, number, reward, rows = kept
    weights, inverse, beta, limits = ahead
    d = arms.shape[2]
    values[:] = np.nan
    for k in range(rows[at]):
        times, target = 0, 0.0
        for part in range(number.shape[2]):
            times += number[at, k, part]
            target += reward[at, k, part]
        if times == 0:
            continue
        view = to[at, k]
        if view >= 0 and beta >= 0.0:
            if np.isnan(values[view]):
                begin = ends[agent, view - 1] if view > 0 else 0
                values[view] = _value(weights, inverse, beta, limits, arms[agent, begin : ends[agent, view]], places)
            target += times * values[view]
        x = arms[agent, arm[at, k]]
        for j in range(d):
            out[j] += target * x[j]


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
    values = np.empty(views[1].shape[1])
    places = np.empty(d, np.int64)
    last = stage == length - 1
    for i in range(len(who)):
        row = who[i] * length + min(stage + 1, length - 1)
        cut = (0.0, 0.0) if last else (limits[0, stage + 1], limits[1, stage + 1])
        ahead = (weights[row], inverses[row], -1.0 if last else beta, cut)
        _add_targets(views, kept, who[i], who[i] * length + stage, ahead, values, places, sums[i])
    return sums


@jit
def plan(known: Any, who: Ints, length: int, inverses: Floats, beta: float, most: Floats, weights: Floats) -> None:
    """Write w_h = L_h^-1 sum phi (r + V_{h+1}(x')) of each of `who` into `weights`, for h = H-1, ..., 0.

    `known` are views and transitions of what agents have done themselves, and views and transitions of what they were
    told.
    """
    own_views, own, told_views, told = known
    d = weights.shape[1]
    values = np.empty(own_views[1].shape[1])
    others = np.empty(told_views[1].shape[1])
    places = np.empty(d, np.int64)
    moment = np.empty(d)
    for a in who:
        for back in range(length):
            at = a * length + length - 1 - back
            row = at + (1 if back > 0 else 0)
            ahead = (weights[row], inverses[row], beta if back > 0 else -1.0, (-np.inf, most[row - a * length]))
            moment[:] = 0.0
            _add_targets(own_views, own, a, at, ahead, values, places, moment)
            _add_targets(told_views, told, a, at, ahead, others, places, moment)
            for j in range(d):
                total = 0.0
                for k in range(d):
                    total += inverses[at, j, k] * moment[k]
                weights[at, j] = total


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
