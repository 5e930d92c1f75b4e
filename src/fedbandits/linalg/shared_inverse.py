"""Ridge regressions that share an inverse and differ by a few observations of their own.

Agent i rests on row e of the shared arrays, V_e^-1 and theta_e, and on `held[i]` observations (x, y) of its own, each
of which brings one vector u and one number z:

    V_i^-1 = V_e^-1 - sum_v u_v u_v^T,   theta_i = theta_e + sum_v z_v u_v,

where learning (x, y) appends u = V_i^-1 x / sqrt(1 + q) and z = (y - <theta_i, x>)/sqrt(1 + q) with q = x^T V_i^-1 x:
Sherman-Morrison, not multiplied out. Nothing is approximated. Observations are all that is kept: u and z follow from
them, and are found whenever an agent decides or learns, which takes r d (d + r) products for r observations, beside
the K d (d/2 + r) of a decision; (d + 1) r numbers of the agent's own are touched and nothing else that is not shared.

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
    points: Floats
    """(r, n, d) the arms that were observed."""
    rewards: Floats
    """(r, n) what they brought."""
    held: Ints
    """(n,) how many observations there are."""
    vectors: Floats
    """(r, d) the vectors u of whoever is busy."""
    weights: Floats
    """(r,) the numbers z."""


@jit_part
def _multiply(agents: Resting, i: int, v: int) -> float:
    """Find u and z of observation v of agent i, those before it having been found; returns q."""
    _, n, d = agents.points.shape
    e = agents.row[i]
    x, u = address(agents.points, (v * n + i) * d), target(agents.vectors, v * d)
    product(address(agents.inverse, e * d * d), x, d, u)
    error = agents.rewards[v, i] - dot(address(agents.theta, e * d), x, d)
    for w in range(v):
        earlier = address(agents.vectors, w * d)
        along = dot(earlier, x, d)
        axpy(-along, earlier, u, d)
        error -= agents.weights[w] * along
    q: float = dot(u, x, d)
    scale = 1.0 / np.sqrt(1.0 + q)
    for c in range(d):
        store(u, c, scale * load(0.0, u, c))
    agents.weights[v] = scale * error
    return q


@jit_part
def _multiply_all(agents: Resting, i: int, count: int) -> None:
    """Find u and z of the first `count` observations of agent i."""
    for v in range(count):
        _multiply(agents, i, v)


@jit_part
def _multiply_out(agents: Resting, count: int, inverse: Address, theta: Address, last: Address) -> None:
    """Let V^-1 and theta know the first `count` observations, whose u and z were found; `last` is room for four."""
    d = agents.vectors.shape[1]
    for v in range(count):
        u = address(agents.vectors, v * d)
        add_outer(-1.0, u, d, inverse, last)
        axpy(agents.weights[v], u, theta, d)


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
    estimate, nothing, norms = target(scratch, 0), target(scratch, d), target(scratch, 2 * d)
    padded, out = target(scratch, 2 * d + _TILE), target(scratch, 6 * d + _TILE)
    e, held, vectors = agents.row[i], agents.held[i], address(agents.vectors, 0)
    _multiply_all(agents, i, held)
    for c in range(d):
        store(estimate, c, agents.theta[e, c])
    for v in range(held):
        axpy(agents.weights[v], address(vectors, v * d), estimate, d)
    v_e, x = address(agents.inverse, e * d * d), address(lanes, at * d * arms)
    if arms < 4:
        pad(x, d, arms, padded)
        _scores(v_e, estimate, nothing, vectors, held, width, padded, d, 4, norms, out)
    else:
        _scores(v_e, estimate, nothing, vectors, held, width, x, d, arms, norms, out)
    return out


@jit_part
def pick_shared(agents: Resting, i: int, width: float, lanes: Floats, at: int, scratch: Floats) -> int:
    """The arm of greatest optimistic score of agent i among those in `lanes[at]` (d, K); see `kernels.pick_one`.

    Shapes: lanes (w, d, K), scratch `kernels.room_for(d, K)`, zeros at first. Nothing is checked.
    """
    found = _score_one(agents, i, width, lanes, at, scratch)
    return first_best(found, lanes.shape[2])


@jit_part
def learn_shared(agents: Resting, i: int, lanes: Floats, at: int, pick: int, y: float) -> float:
    """Agent i learns the arm `pick` of `lanes[at]` and the reward y, for which there has to be room; returns
    log(1 + q).
    """
    _, d, arms = lanes.shape
    held = agents.held[i]
    x = target(agents.points, (held * agents.points.shape[1] + i) * d)
    gather(address(lanes, at * d * arms), d, arms, pick, x)
    agents.rewards[held, i] = y
    agents.held[i] = held + 1
    _multiply_all(agents, i, held)
    gain: float = np.log1p(_multiply(agents, i, held))
    return gain


@jit_part
def _forget_first(agents: Resting, i: int, count: int) -> None:
    """Let agent i hold what came after its first `count` observations."""
    _, n, d = agents.points.shape
    agents.held[i] -= count
    for v in range(agents.held[i] if count else 0):
        x, later = target(agents.points, (v * n + i) * d), address(agents.points, ((v + count) * n + i) * d)
        for c in range(d):
            store(x, c, load(0.0, later, c))
        agents.rewards[v, i] = agents.rewards[v + count, i]


@jit
def relearn_shared(agents: Resting, settled: Ints, who: Ints, gain: Floats) -> None:
    """Of what agents `who` hold forget what is `settled` (n,): the rest is on top of their rows.

    `gain` (w,): by how much each log det V is more than its row's.
    """
    for a in range(len(who)):
        i = who[a]
        _forget_first(agents, i, settled[i])
        settled[i] = 0
        gain[a] = 0.0
        for v in range(agents.held[i]):
            gain[a] += np.log1p(_multiply(agents, i, v))


@jit
def fold_shared(agents: Resting, who: Ints, count: Ints, last: Floats) -> None:
    """Multiply out: let the rows of `who`, each their own, know the first `count` (w,) of what these hold, who then
    hold the others; `last` (4,) is room.
    """
    d = agents.points.shape[2]
    for a in range(len(who)):
        i = who[a]
        e = agents.row[i]
        _multiply_all(agents, i, count[a])
        inverse, theta = target(agents.inverse, e * d * d), target(agents.theta, e * d)
        _multiply_out(agents, count[a], inverse, theta, target(last, 0))
        _forget_first(agents, i, count[a])


@jit
def knowledge_shared(agents: Resting, inverse: Floats, theta: Floats, last: Floats) -> None:
    """Write V_i^-1 (n, d, d) and theta_i (n, d) of everybody; `last` (4,) is room."""
    n, d = theta.shape
    for i in range(n):
        inverse[i] = agents.inverse[agents.row[i]]
        theta[i] = agents.theta[agents.row[i]]
        _multiply_all(agents, i, agents.held[i])
        _multiply_out(agents, agents.held[i], target(inverse, i * d * d), target(theta, i * d), target(last, 0))


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
    _, n, d = points.shape
    for a in range(len(who)):
        i = who[a]
        for v in range(first[a], end[a]):
            x = address(points, (v * n + i) * d)
            add_outer(1.0, x, d, target(gram, into[a] * d * d), target(last, 0))
            axpy(rewards[v, i], x, target(moment, into[a] * d), d)


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
