"""Ridge regressions that share an inverse and differ by a few observations of their own.

Agent i rests on row e of the shared arrays, V_e^-1 and theta_e, and on `held[i]` observations of its own, of which it
keeps one vector u and one number z each:

    V_i^-1 = V_e^-1 - sum_v u_v u_v^T,   theta_i = theta_e + sum_v z_v u_v,

where learning (x, y) appends u = V_i^-1 x / sqrt(1 + q) and z = (y - <theta_i, x>)/sqrt(1 + q) with q = x^T V_i^-1 x:
Sherman-Morrison, not multiplied out. Nothing is approximated. A decision takes K d (d/2 + r) products for r vectors
instead of K d^2/2, and learning d (d + 2r) instead of 3 d^2, which touch (d + 1) r numbers of the agent's own and
nothing else that is not shared.

Conventions are those of `linalg.kernels`, whose parts this is made of.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import (
    add_outer,
    axpy,
    dot,
    first_best,
    gather,
    pad,
    product,
    registers_for,
    room_for,
    score_by_four,
    score_by_two,
)
from fedbandits.linalg.simd import Address, Value, address, load, mul, muladd, root, store, target, zero

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TILE = 20
"""Arms of the widest tile."""


class Resting(NamedTuple):
    """Agents that rest on rows of shared arrays, with room for r observations of their own."""

    inverse: Floats
    """(m, d, d) V_e^-1."""
    theta: Floats
    """(m, d) theta_e."""
    row: Ints
    """(n,) which row an agent rests on."""
    own: Floats
    """(n, r, d) the vectors u."""
    weight: Floats
    """(n, r) the numbers z."""
    points: Floats
    """(n, r, d) the arms that were observed."""
    rewards: Floats
    """(n, r) what they brought."""
    held: Ints
    """(n,) how many observations there are."""


@jit_part
def _own_tile(
    none: Value,
    norms: Address,
    theta: Address,
    own: Address,
    held: int,
    width: float,
    lanes: Address,
    stride: int,
    d: int,
    out: Address,
) -> None:
    """Scores of as many arms as `none` has lanes, `norms` being theirs in V_e^-1; two vectors u at a time."""
    norm = load(none, norms, 0)
    rest = mul(norm, norm)
    mean = none
    for j in range(d):
        mean = muladd(load(0.0, theta, j), load(none, lanes, j * stride), mean)
    for v in range(0, held - 1, 2):
        u0 = address(own, v * d)
        u1 = address(u0, d)
        p0 = none
        p1 = none
        for j in range(d):
            x = load(none, lanes, j * stride)
            p0 = muladd(load(0.0, u0, j), x, p0)
            p1 = muladd(load(0.0, u1, j), x, p1)
        rest = muladd(mul(-1.0, p0), p0, rest)
        rest = muladd(mul(-1.0, p1), p1, rest)
    if held % 2 == 1:
        u0 = address(own, (held - 1) * d)
        p0 = none
        for j in range(d):
            p0 = muladd(load(0.0, u0, j), load(none, lanes, j * stride), p0)
        rest = muladd(mul(-1.0, p0), p0, rest)
    store(out, 0, muladd(width, root(rest), mean))


@jit_part
def _scores(
    inverse: Address,
    theta: Address,
    nothing: Address,
    own: Address,
    held: int,
    width: float,
    lanes: Address,
    d: int,
    arms: int,
    norms: Address,
    out: Address,
) -> None:
    """Scores of `arms` >= 4 arms of one agent, `nothing` being d zeros."""
    k = 0
    while k < arms:
        registers = registers_for(arms - k, arms)
        k = min(k, arms - 4 * registers)
        x = address(lanes, k)
        o = address(out, k)
        if registers == 5:
            score_by_two(zero(5), inverse, nothing, 1.0, x, arms, d, norms)
            _own_tile(zero(5), norms, theta, own, held, width, x, arms, d, o)
        elif registers == 3:
            score_by_four(zero(3), inverse, nothing, 1.0, x, arms, d, norms)
            _own_tile(zero(3), norms, theta, own, held, width, x, arms, d, o)
        elif registers == 2:
            score_by_four(zero(2), inverse, nothing, 1.0, x, arms, d, norms)
            _own_tile(zero(2), norms, theta, own, held, width, x, arms, d, o)
        else:
            score_by_four(zero(1), inverse, nothing, 1.0, x, arms, d, norms)
            _own_tile(zero(1), norms, theta, own, held, width, x, arms, d, o)
        k += 4 * registers


@jit_part
def _score_one(agents: Resting, i: int, width: float, lanes: Floats, at: int, scratch: Floats) -> Address:
    """Where the scores of agent i are, among the arms in `lanes[at]`."""
    _, d, arms = lanes.shape
    room = agents.own.shape[1]
    estimate, nothing, norms = target(scratch, 0), target(scratch, d), target(scratch, 2 * d)
    padded, out = target(scratch, 2 * d + _TILE), target(scratch, 6 * d + _TILE)
    e = agents.row[i]
    vectors = address(agents.own, i * room * d)
    for c in range(d):
        store(estimate, c, agents.theta[e, c])
    for v in range(agents.held[i]):
        axpy(agents.weight[i, v], address(vectors, v * d), estimate, d)
    v_e, x = address(agents.inverse, e * d * d), address(lanes, at * d * arms)
    if arms < 4:
        pad(x, d, arms, padded)
        _scores(v_e, estimate, nothing, vectors, agents.held[i], width, padded, d, 4, norms, out)
    else:
        _scores(v_e, estimate, nothing, vectors, agents.held[i], width, x, d, arms, norms, out)
    return out


@jit_part
def pick_shared(agents: Resting, i: int, width: float, lanes: Floats, at: int, scratch: Floats) -> int:
    """The arm of greatest optimistic score of agent i among those in `lanes[at]` (d, K); see `kernels.pick_one`.

    Shapes: lanes (w, d, K), scratch `kernels.room_for(d, K)`, zeros at first. Nothing is checked.
    """
    found = _score_one(agents, i, width, lanes, at, scratch)
    return first_best(found, lanes.shape[2])


@jit_part
def _append(agents: Resting, i: int, x: Address, y: float) -> float:
    """Let agent i learn (x, y), into a place that has to be there; returns log(1 + q)."""
    _, room, d = agents.own.shape
    e, last = agents.row[i], agents.held[i]
    vectors = target(agents.own, i * room * d)
    u = address(vectors, last * d)
    product(address(agents.inverse, e * d * d), x, d, u)
    error = y - dot(address(agents.theta, e * d), x, d)
    for v in range(last):
        along = dot(address(vectors, v * d), x, d)
        axpy(-along, address(vectors, v * d), u, d)
        error -= agents.weight[i, v] * along
    q = dot(u, x, d)
    scale = 1.0 / np.sqrt(1.0 + q)
    for c in range(d):
        store(u, c, scale * load(0.0, u, c))
    agents.weight[i, last] = scale * error
    agents.held[i] = last + 1
    gain: float = np.log1p(q)
    return gain


@jit_part
def learn_shared(agents: Resting, i: int, lanes: Floats, at: int, pick: int, y: float) -> float:
    """Agent i learns the arm `pick` of `lanes[at]` and the reward y, both of which are kept, for which there has to be
    room; returns log(1 + q).
    """
    _, d, arms = lanes.shape
    x = target(agents.points, (i * agents.points.shape[1] + agents.held[i]) * d)
    gather(address(lanes, at * d * arms), d, arms, pick, x)
    agents.rewards[i, agents.held[i]] = y
    return _append(agents, i, x, y)


@jit
def relearn_shared(agents: Resting, settled: Ints, who: Ints, gain: Floats) -> None:
    """Of what agents `who` hold forget what is `settled` (n,), and learn the rest again on top of their rows.

    `gain` (w,): by how much each log det V grows by it.
    """
    _, room, d = agents.points.shape
    for a in range(len(who)):
        i = who[a]
        first, last = settled[i], agents.held[i]
        settled[i] = 0
        agents.held[i] = 0
        gain[a] = 0.0
        for v in range(first, last):
            x = target(agents.points, (i * room + v - first) * d)
            old = address(agents.points, (i * room + v) * d)
            for c in range(d):
                store(x, c, load(0.0, old, c))
            agents.rewards[i, v - first] = agents.rewards[i, v]
            gain[a] += _append(agents, i, x, agents.rewards[i, v - first])


@jit
def fold_shared(agents: Resting, who: Ints, count: Ints, last: Floats) -> None:
    """Multiply out: let the rows of `who`, each their own, know the first `count` (w,) of what these hold, who then
    hold the others; `last` (4,) is room.
    """
    _, room, d = agents.own.shape
    for a in range(len(who)):
        i = who[a]
        e = agents.row[i]
        for v in range(count[a]):
            u = address(agents.own, (i * room + v) * d)
            add_outer(-1.0, u, d, target(agents.inverse, e * d * d), target(last, 0))
            axpy(agents.weight[i, v], u, target(agents.theta, e * d), d)
        for v in range(count[a], agents.held[i]):
            to = v - count[a]
            agents.weight[i, to], agents.rewards[i, to] = agents.weight[i, v], agents.rewards[i, v]
            for c in range(d):
                agents.own[i, to, c] = agents.own[i, v, c]
                agents.points[i, to, c] = agents.points[i, v, c]
        agents.held[i] -= count[a]


@jit
def sums_of_points(
    points: Floats,
    rewards: Floats,
    first: Ints,
    end: Ints,
    who: Ints,
    into: Ints,
    gram: Floats,
    moment: Floats,
    last: Floats,
) -> None:
    """Add observations `first[a]` to `end[a]` of agent `who[a]` to row `into[a]` of the sums; `last` (4,) is room."""
    _, room, d = points.shape
    for a in range(len(who)):
        i = who[a]
        for v in range(first[a], end[a]):
            x = address(points, (i * room + v) * d)
            add_outer(1.0, x, d, target(gram, into[a] * d * d), target(last, 0))
            axpy(rewards[i, v], x, target(moment, into[a] * d), d)


@jit
def picks_shared(agents: Resting, who: Ints, width: Floats, lanes: Floats) -> Ints:
    """(w,) `pick_shared` for each of `who`, of whom a sees `lanes[a]` and has the width `width[a]`."""
    scratch = np.zeros(room_for(lanes.shape[1], lanes.shape[2]))
    out = np.empty(len(who), np.int64)
    for a in range(len(who)):
        out[a] = pick_shared(agents, who[a], width[a], lanes, a, scratch)
    return out


@jit
def scores_shared(agents: Resting, who: Ints, width: Floats, lanes: Floats) -> Floats:
    """(w, K) what `picks_shared` compares."""
    arms = lanes.shape[2]
    scratch = np.zeros(room_for(lanes.shape[1], arms))
    out = np.empty((len(who), arms))
    for a in range(len(who)):
        found = _score_one(agents, who[a], width[a], lanes, a, scratch)
        for k in range(arms):
            out[a, k] = load(0.0, found, k)
    return out
