"""Value iteration of teams: regressions on the features of joint actions, one column for each member.

Notation. A team has m members. In a state, member u has K actions with a block (K, b) of numbers; the first `pays` of
them are for rewards, the others for next states. Of a joint action (a_1, ..., a_m) the vectors f (q_r numbers) and
g (q_s numbers) are made of those parts of the rows a_u of all blocks: one after the other (q = m b), divided by
sqrt(2 m), or as their product (q = b^m), divided by sqrt(2). Column v of Phi (p, m), p = m q_r + q_s, is
[e_v (x) f; g]: every member's rewards have weights of their own, next states have common ones.

With the regression w = L^-1 sum Phi y of a stage, L = lambda I + sum Phi Phi^T, and weights v (m,) that sum to 1, the
index of a joint action is

    v^T Phi^T w + beta ||Phi^T L^-1 Phi||_2^(1/2),

the value of a state the largest index, cut off at c_h. All matrices are sums over few entries, since blocks are mostly
zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import dot_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SWEEPS = 50
"""After which coordinate ascent stops anyway; it rises with every change, so that it ends by itself."""
_TABLE = 2**16
"""Joint states up to which values are looked up instead of computed again."""
_ROTATIONS = 30
"""Sweeps of Jacobi's method after which an eigenvalue is taken as it is; five or six are enough."""


def sizes(members: int, block: int, pays: int, product: bool) -> tuple[int, int]:
    """q_r and q_s."""
    if product:
        return int(pays**members), int((block - pays) ** members)
    return members * pays, members * (block - pays)


@jit_part
def _part(blocks: Floats, begin: Ints, acts: Ints, low: int, high: int, product: bool, out: Any) -> int:
    """The entries of f or g that are not zero: where, and what; returns how many. `out` is room for all of them."""
    where, what, spare_where, spare_what = out
    m, width = len(begin), high - low
    if not product:
        scale = 1.0 / np.sqrt(2.0 * m)
        held = 0
        for u in range(m):
            row = blocks[begin[u] + acts[u]]
            for j in range(width):
                if row[low + j] != 0.0:
                    where[held] = u * width + j
                    what[held] = scale * row[low + j]
                    held += 1
        return held
    where[0] = 0
    what[0] = 1.0 / np.sqrt(2.0)
    held = 1
    for u in range(m):
        row = blocks[begin[u] + acts[u]]
        more = 0
        for k in range(held):
            for j in range(width):
                if row[low + j] != 0.0:
                    spare_where[more] = where[k] * width + j
                    spare_what[more] = what[k] * row[low + j]
                    more += 1
        held = more
        for k in range(held):
            where[k] = spare_where[k]
            what[k] = spare_what[k]
    return held


@jit
def _largest_eigenvalue(matrix: Floats) -> float:
    """Of a symmetric positive semidefinite matrix, which is overwritten: by Jacobi's rotations."""
    m = len(matrix)
    for _ in range(_ROTATIONS):
        off, trace = 0.0, 0.0
        for i in range(m):
            trace += abs(matrix[i, i])
            for j in range(i):
                off += abs(matrix[i, j])
        if off <= 1e-15 * trace:
            break
        for i in range(1, m):
            for j in range(i):
                if matrix[i, j] == 0.0:
                    continue
                tau = (matrix[i, i] - matrix[j, j]) / (2.0 * matrix[i, j])
                t = (1.0 if tau >= 0.0 else -1.0) / (abs(tau) + np.sqrt(1.0 + tau * tau))
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for k in range(m):
                    a, b = matrix[j, k], matrix[i, k]
                    matrix[j, k] = c * a - s * b
                    matrix[i, k] = s * a + c * b
                for k in range(m):
                    a, b = matrix[k, j], matrix[k, i]
                    matrix[k, j] = c * a - s * b
                    matrix[k, i] = s * a + c * b
    best = matrix[0, 0]
    for i in range(1, m):
        best = max(best, matrix[i, i])
    return float(best)


@jit_part
def _spread(inverse: Floats, m: int, qr: int, f: Any, nf: int, g: Any, ng: int, matrix: Floats) -> float:
    """||Phi^T L^-1 Phi||_2; `matrix` is room for m x m numbers."""
    state = m * qr
    common = 0.0
    for a in range(ng):
        for b in range(ng):
            common += g[1][a] * inverse[state + g[0][a], state + g[0][b]] * g[1][b]
    for v in range(m):
        cross = 0.0
        for a in range(nf):
            for b in range(ng):
                cross += f[1][a] * inverse[v * qr + f[0][a], state + g[0][b]] * g[1][b]
        matrix[v, v] = cross
    for v in range(m):
        for w in range(v):
            inner = 0.0
            for a in range(nf):
                for b in range(nf):
                    inner += f[1][a] * inverse[v * qr + f[0][a], w * qr + f[0][b]] * f[1][b]
            matrix[v, w] = matrix[w, v] = inner + matrix[v, v] + matrix[w, w] + common
    for v in range(m):
        inner = 0.0
        for a in range(nf):
            for b in range(nf):
                inner += f[1][a] * inverse[v * qr + f[0][a], v * qr + f[0][b]] * f[1][b]
        matrix[v, v] = inner + 2.0 * matrix[v, v] + common
    return _largest_eigenvalue(matrix)


@jit_part
def _index(blocks: Floats, begin: Ints, acts: Ints, ahead: Any, form: Any, room: Any) -> float:
    """The index of a joint action `acts` (m,) in the state whose blocks begin in rows `begin` (m,) of `blocks`.

    `ahead` is (what f is worth (q_r,), what g is worth (q_s,), L^-1, beta), `form` (pays, product, q_r).
    """
    worth_f, worth_g, inverse, beta = ahead
    pays, product, qr = form
    f, g, matrix = room
    nf = _part(blocks, begin, acts, 0, pays, product, f)
    ng = _part(blocks, begin, acts, pays, blocks.shape[1], product, g)
    total = 0.0
    for a in range(nf):
        total += worth_f[f[0][a]] * f[1][a]
    for a in range(ng):
        total += worth_g[g[0][a]] * g[1][a]
    if beta > 0.0:
        total += beta * np.sqrt(max(_spread(inverse, len(begin), qr, f, nf, g, ng, matrix), 0.0))
    return total


@jit_part
def _ascend(blocks: Floats, begin: Ints, actions: int, ahead: Any, form: Any, room: Any, acts: Ints) -> float:
    """Improve `acts` one member after the other, the first of equals, until nobody can alone; returns the index."""
    best = _index(blocks, begin, acts, ahead, form, room)
    for _ in range(_SWEEPS):
        moved = False
        for u in range(len(begin)):
            kept = acts[u]
            for k in range(actions):
                acts[u] = k
                found = _index(blocks, begin, acts, ahead, form, room)
                if found > best:
                    best, kept, moved = found, k, True
            acts[u] = kept
        if not moved:
            break
    return best


@jit_part
def _best(blocks: Floats, begin: Ints, actions: int, ahead: Any, form: Any, exact: int, room: Any, acts: Ints) -> float:
    """The largest index, of `acts` (m,), which is overwritten: over all joint actions in order, the first of equals, if
    there are at most `exact`; else by coordinate ascent, from where the index is largest without its bonus (for sums
    that is found exactly).
    """
    m, many = len(begin), 1
    for _ in range(m):
        many *= actions
        if many > exact:
            break
    acts[:] = 0
    if many > exact:
        plain = (ahead[0], ahead[1], ahead[2], 0.0)
        _ascend(blocks, begin, actions, plain, form, room, acts)
        return _ascend(blocks, begin, actions, ahead, form, room, acts)
    trial = np.zeros(m, np.int64)
    best = -np.inf
    for _ in range(many):
        found = _index(blocks, begin, trial, ahead, form, room)
        if found > best:
            best = found
            acts[:] = trial
        u = m - 1
        while u >= 0:
            trial[u] += 1
            if trial[u] < actions:
                break
            trial[u] = 0
            u -= 1
    return best


@jit_part
def _room(m: int, qr: int, qs: int) -> Any:
    f = (np.empty(qr, np.int64), np.empty(qr), np.empty(qr, np.int64), np.empty(qr))
    g = (np.empty(qs, np.int64), np.empty(qs), np.empty(qs, np.int64), np.empty(qs))
    return f, g, np.empty((m, m))


@jit_part
def _ahead(weights: Floats, inverse: Floats, beta: float, preference: Floats, qr: int, qs: int) -> Any:
    m = len(preference)
    worth = np.zeros(qr)
    for v in range(m):
        for j in range(qr):
            worth[j] += preference[v] * weights[v * qr + j]
    return worth, weights[m * qr : m * qr + qs].copy(), inverse, beta


@jit
def choose_jointly(
    blocks: Floats,
    weights: Floats,
    inverse: Floats,
    beta: float,
    preference: Floats,
    form: tuple[int, bool, int, int],
    exact: int,
) -> Ints:
    """(m,) the joint action with the highest index; `blocks` (m, K, b), `form` is (pays, product, q_r, q_s)."""
    m, actions, b = blocks.shape
    pays, product, qr, qs = form
    acts = np.zeros(m, np.int64)
    ahead = _ahead(weights, inverse, beta, preference, qr, qs)
    rows = blocks.reshape(m * actions, b)
    _best(rows, np.arange(m) * actions, actions, ahead, (pays, product, qr), exact, _room(m, qr, qs), acts)
    return acts


@jit
def joint_index(
    blocks: Floats,
    acts: Ints,
    weights: Floats,
    inverse: Floats,
    beta: float,
    preference: Floats,
    form: tuple[int, bool, int, int],
) -> float:
    """The index of one joint action (m,)."""
    m, actions, b = blocks.shape
    pays, product, qr, qs = form
    ahead = _ahead(weights, inverse, beta, preference, qr, qs)
    rows = blocks.reshape(m * actions, b)
    return _index(rows, np.arange(m) * actions, acts, ahead, (pays, product, qr), _room(m, qr, qs))


@jit
def joint_columns(chosen: Floats, form: tuple[int, bool, int, int], p: int) -> Floats:
    """(m, p) the columns of Phi of a joint action whose blocks are `chosen` (m, b), in `p` numbers, the last of which
    are zero where other teams have more members.
    """
    m = len(chosen)
    pays, product, qr, qs = form
    f, g, _ = _room(m, qr, qs)
    begin, acts = np.arange(m), np.zeros(m, np.int64)
    nf = _part(chosen, begin, acts, 0, pays, product, f)
    ng = _part(chosen, begin, acts, pays, chosen.shape[1], product, g)
    columns = np.zeros((m, p))
    for v in range(m):
        for a in range(nf):
            columns[v, v * qr + f[0][a]] = f[1][a]
        for a in range(ng):
            columns[v, m * qr + g[0][a]] = g[1][a]
    return columns


@jit_part
def _begins(ends: Ints, seen: Ints, m: int, begin: Ints) -> int:
    """Where the blocks of a joint state `seen` (m,) begin; returns how many actions there are."""
    for u in range(m):
        begin[u] = ends[seen[u] - 1] if seen[u] > 0 else 0
    return int(ends[seen[0]] - begin[0])


@jit
def plan_jointly(
    blocks: Floats,
    ends: Ints,
    history: Any,
    preference: Floats,
    inverses: Floats,
    beta: float,
    most: Floats,
    form: tuple[int, bool, int, int],
    exact: int,
    weights: Floats,
) -> None:
    """Write w_h = L_h^-1 sum Phi (r + 1 V_{h+1}(x')) of one team into `weights` (H, p), for h = H-1, ..., 0.

    `blocks` (rows, b) and `ends` (views,) are the blocks that were ever seen. `history` is (seen, did, reward, stages,
    used): in stage h of episode e the members saw blocks `seen` (E, H, m), did `did` (E, H, m) and got `reward`
    (E, H, m); `stages` (E,) is how many there were, and episodes that `used` (E,) does not name do not count.
    """
    seen, did, reward, stages, used = history
    pays, product, qr, qs = form
    m, length, p = len(preference), len(weights), weights.shape[1]
    f, g, matrix = _room(m, qr, qs)
    begin, acts, moment = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(p)
    states = 1
    for _ in range(m):
        states = min(states * len(ends), _TABLE + 1)
    known = np.full(states if states <= _TABLE else 0, np.nan)
    for back in range(length):
        h = length - 1 - back
        moment[:] = 0.0
        known[:] = np.nan
        later = min(h + 1, length - 1)
        ahead = _ahead(weights[later], inverses[later], beta, preference, qr, qs)
        for e in range(len(stages)):
            if not used[e] or stages[e] <= h:
                continue
            value = 0.0
            if h + 1 < stages[e]:
                place = 0
                for u in range(m):
                    place = place * len(ends) + seen[e, h + 1, u] if len(known) else 0
                if len(known) and not np.isnan(known[place]):
                    value = known[place]
                else:
                    actions = _begins(ends, seen[e, h + 1], m, begin)
                    found = _best(blocks, begin, actions, ahead, (pays, product, qr), exact, (f, g, matrix), acts)
                    value = min(found, most[h + 1])
                    if len(known):
                        known[place] = value
            _begins(ends, seen[e, h], m, begin)
            nf = _part(blocks, begin, did[e, h], 0, pays, product, f)
            ng = _part(blocks, begin, did[e, h], pays, blocks.shape[1], product, g)
            total = 0.0
            for v in range(m):
                target = reward[e, h, v] + value
                total += target
                for a in range(nf):
                    moment[v * qr + f[0][a]] += f[1][a] * target
            for a in range(ng):
                moment[m * qr + g[0][a]] += g[1][a] * total
        for j in range(p):
            weights[h, j] = dot_at(inverses, (h * p + j) * p, moment, 0, p)
