"""Compiled inner loops over a population of ridge regressions.

Agent i of n keeps, for its regression in R^d, the inverse (A_i + lambda I)^-1 in `inverse[i]`, the
estimate in `theta[i]` and log det(A_i + lambda I) in `logdet[i]`; the sums A_i and b_i themselves
are `gram[i]` and `moment[i]`. At a step the w agents `who` (distinct) are awake and see K arms
each. The arms arrive as `lanes` of shape (w, d, K), arm index last, so that neighbouring arms are
neighbouring SIMD lanes; `as_lanes` gets them from an array of shape (w, K, d).

All arrays are C-contiguous float64, indices int64. Agents are worked one after another by the same
instructions, so an agent's result does not depend, to the last bit, on who else is in the batch.
Within one agent, equal arms get equal scores wherever they stand.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, muladd, root, store, target, total, zero

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def aligned(shape: tuple[int, ...]) -> Floats:
    """Zeros that begin at a cache line.

    Any array will do for the kernels, but `numpy.zeros` is apt to begin a quarter of a line late,
    and registers that straddle two lines cost about a tenth of the time.
    """
    size = math.prod(shape)
    buffer = np.zeros(size + 8)
    late = buffer.__array_interface__["data"][0] % 64 // 8
    return buffer[(8 - late) % 8 :][:size].reshape(shape)


def as_lanes(arms: Floats) -> Floats:
    """The (w, d, K) buffer behind `arms` (w, K, d): a view if that is C-contiguous, else a copy."""
    lanes = arms.transpose(0, 2, 1)
    if lanes.flags.c_contiguous and lanes.dtype == np.float64:
        return lanes
    copy = aligned(lanes.shape)
    copy[:] = lanes
    return copy


# --- checks: addresses are unchecked, so nothing may pass here that lies outside an array


@jit_part
def check_who(n: int, who: Ints) -> None:
    """Raise unless `who` are agents of a population of n."""
    for a in range(who.size):
        if who[a] < 0 or who[a] >= n:
            raise IndexError("who names an agent outside the population")


@jit_part
def _check_picks(arms: int, picks: Ints) -> None:
    for a in range(picks.size):
        if picks[a] < 0 or picks[a] >= arms:
            raise IndexError("picks name an arm that was not offered")


@jit_part
def _check_model(inverse: Floats, theta: Floats, d: int) -> None:
    n = inverse.shape[0]
    if inverse.shape[1] != d or inverse.shape[2] != d or theta.shape[0] != n or theta.shape[1] != d:
        raise ValueError("matrices, vectors and arms disagree in shape")


# --- tiles


@jit_inside
def registers_for(left: int, size: int) -> int:
    """Registers of the next tile when `left` of `size` >= 4 numbers remain.

    Five are best; a last tile is moved back to overlap its predecessor rather than be cut. A tile
    of one waits for its own sums and takes as long as a tile of two, hence 16 = 8 + 8, not 12 + 4.
    """
    if size >= 20 and left > 16:
        return 5
    if size >= 12 and (left > 16 or 8 < left <= 12):
        return 3
    if size >= 8 and left > 4:
        return 2
    return 1


@jit_inside
def _combine_tile(
    none: Value, weights: Address, step: int, rows: Address, pitch: int, count: int, out: Address
) -> None:
    """Write sum_j weights[step j] rows[j] over the columns that `none` spans."""
    # Two sums, because one alone would wait for its own last product.
    even = none
    odd = none
    for _ in range(count // 2):
        even = muladd(load(0.0, weights, 0), load(none, rows, 0), even)
        odd = muladd(load(0.0, weights, step), load(none, rows, pitch), odd)
        weights = address(weights, 2 * step)
        rows = address(rows, 2 * pitch)
    if count % 2 == 1:
        even = muladd(load(0.0, weights, 0), load(none, rows, 0), even)
    store(out, 0, add(even, odd))


@jit_part
def _combine(weights: Address, step: int, rows: Address, pitch: int, count: int, size: int, out: Address) -> None:
    """out[c] = sum_{j < count} weights[step j] rows[pitch j + c] for c < size, size >= 4."""
    c = 0
    while c < size:
        registers = registers_for(size - c, size)
        c = min(c, size - 4 * registers)
        columns = address(rows, c)
        o = address(out, c)
        if registers == 5:
            _combine_tile(zero(5), weights, step, columns, pitch, count, o)
        elif registers == 3:
            _combine_tile(zero(3), weights, step, columns, pitch, count, o)
        elif registers == 2:
            _combine_tile(zero(2), weights, step, columns, pitch, count, o)
        else:
            _combine_tile(zero(1), weights, step, columns, pitch, count, o)
        c += 4 * registers


# --- choosing


@jit_inside
def score_by_two(
    none: Value,
    inverse: Address,
    theta: Address,
    width: float,
    lanes: Address,
    stride: int,
    d: int,
    out: Address,
) -> None:
    """Write <theta, x> + width sqrt(x' V x) for as many arms as `none` has lanes.

    By symmetry x' V x = 2 sum_i x_i (V_ii x_i / 2 + sum_{j<i} V_ij x_j): half of V is read, two
    rows at a time. A row that does not fill a pair comes first, where it is shortest.
    """
    square = none
    mean = none
    if d % 2 == 1:
        x = load(none, lanes, 0)
        square = mul(x, mul(0.5 * load(0.0, inverse, 0), x))
        mean = mul(load(0.0, theta, 0), x)
    for i in range(d % 2, d, 2):
        row0 = address(inverse, i * d)
        row1 = address(row0, d)
        here = address(lanes, i * stride)
        x = load(none, here, 0)
        s0 = mul(0.5 * load(0.0, row0, i), x)
        mean = muladd(load(0.0, theta, i), x, mean)
        x = load(none, here, stride)
        s1 = mul(0.5 * load(0.0, row1, i + 1), x)
        mean = muladd(load(0.0, theta, i + 1), x, mean)
        here = lanes
        for j in range(i):
            x = load(none, here, 0)
            s0 = muladd(load(0.0, row0, j), x, s0)
            s1 = muladd(load(0.0, row1, j), x, s1)
            here = address(here, stride)
        x = load(none, here, 0)
        s1 = muladd(load(0.0, row1, i), x, s1)
        square = muladd(x, s0, square)
        square = muladd(load(none, here, stride), s1, square)
    store(out, 0, muladd(width, root(mul(2.0, square)), mean))


@jit_inside
def score_by_four(
    none: Value,
    inverse: Address,
    theta: Address,
    width: float,
    lanes: Address,
    stride: int,
    d: int,
    out: Address,
) -> None:
    """`score_by_two` four rows at a time, for tiles too narrow to fill the machine with two.

    Each lane sees the same operations in the same order, hence the same bits.
    """
    square = none
    mean = none
    head = d % 4
    for i in range(head):
        row = address(inverse, i * d)
        x = load(none, lanes, i * stride)
        s0 = mul(0.5 * load(0.0, row, i), x)
        for j in range(i):
            s0 = muladd(load(0.0, row, j), load(none, lanes, j * stride), s0)
        square = muladd(x, s0, square)
        mean = muladd(load(0.0, theta, i), x, mean)
    for i in range(head, d, 4):
        row0 = address(inverse, i * d)
        row1 = address(row0, d)
        row2 = address(row1, d)
        row3 = address(row2, d)
        here = address(lanes, i * stride)
        x = load(none, here, 0)
        s0 = mul(0.5 * load(0.0, row0, i), x)
        mean = muladd(load(0.0, theta, i), x, mean)
        x = load(none, here, stride)
        s1 = mul(0.5 * load(0.0, row1, i + 1), x)
        mean = muladd(load(0.0, theta, i + 1), x, mean)
        x = load(none, here, 2 * stride)
        s2 = mul(0.5 * load(0.0, row2, i + 2), x)
        mean = muladd(load(0.0, theta, i + 2), x, mean)
        x = load(none, here, 3 * stride)
        s3 = mul(0.5 * load(0.0, row3, i + 3), x)
        mean = muladd(load(0.0, theta, i + 3), x, mean)
        here = lanes
        for j in range(i):
            x = load(none, here, 0)
            s0 = muladd(load(0.0, row0, j), x, s0)
            s1 = muladd(load(0.0, row1, j), x, s1)
            s2 = muladd(load(0.0, row2, j), x, s2)
            s3 = muladd(load(0.0, row3, j), x, s3)
            here = address(here, stride)
        x = load(none, here, 0)
        s1 = muladd(load(0.0, row1, i), x, s1)
        s2 = muladd(load(0.0, row2, i), x, s2)
        s3 = muladd(load(0.0, row3, i), x, s3)
        square = muladd(x, s0, square)
        x = load(none, here, stride)
        s2 = muladd(load(0.0, row2, i + 1), x, s2)
        s3 = muladd(load(0.0, row3, i + 1), x, s3)
        square = muladd(x, s1, square)
        x = load(none, here, 2 * stride)
        s3 = muladd(load(0.0, row3, i + 2), x, s3)
        square = muladd(x, s2, square)
        square = muladd(load(none, here, 3 * stride), s3, square)
    store(out, 0, muladd(width, root(mul(2.0, square)), mean))


@jit_inside
def _score_agent(
    inverse: Address, theta: Address, width: float, lanes: Address, d: int, arms: int, out: Address
) -> None:
    """Scores of `arms` >= 4 arms of one agent."""
    k = 0
    while k < arms:
        registers = registers_for(arms - k, arms)
        k = min(k, arms - 4 * registers)
        x = address(lanes, k)
        o = address(out, k)
        if registers == 5:
            score_by_two(zero(5), inverse, theta, width, x, arms, d, o)
        elif registers == 3:
            score_by_four(zero(3), inverse, theta, width, x, arms, d, o)
        elif registers == 2:
            score_by_four(zero(2), inverse, theta, width, x, arms, d, o)
        else:
            score_by_four(zero(1), inverse, theta, width, x, arms, d, o)
        k += 4 * registers


@jit_inside
def pad(lanes: Address, d: int, arms: int, out: Address) -> None:
    """Widen fewer than four arms to four, the new ones being zero (as `out` is at first)."""
    for i in range(d):
        for k in range(arms):
            store(out, 4 * i + k, load(0.0, lanes, i * arms + k))


@jit_inside
def first_best(row: Address, arms: int) -> int:
    """Index of the greatest number, the lowest among equals; -1 if any of them is not finite."""
    best = -np.inf
    pick = -1
    for k in range(arms):
        score = load(0.0, row, k)
        if not abs(score) < np.inf:
            return -1
        if score > best:
            best = score
            pick = k
    return pick


@jit_inside
def score_one(
    inverse: Address,
    theta: Address,
    width: float,
    lanes: Address,
    d: int,
    arms: int,
    padded: Address,
    row: Address,
) -> None:
    """Write the optimistic scores of one agent's lanes (d, K) to `row`, which has room for four at the least; `padded`
    has it for 4 d numbers, zeros at first.
    """
    if arms < 4:
        pad(lanes, d, arms, padded)
        _score_agent(inverse, theta, width, padded, d, 4, row)
    else:
        _score_agent(inverse, theta, width, lanes, d, arms, row)


@jit_part
def _scores_into(
    inverse: Floats,
    theta: Floats,
    width: Floats,
    who: Ints,
    lanes: Floats,
    padded: Floats,
    row: Floats,
    out: Floats,
) -> None:
    _, d, arms = lanes.shape
    scratch = target(padded, 0)
    scores = target(row, 0)
    for a in range(who.size):
        v = address(inverse, who[a] * d * d)
        t = address(theta, who[a] * d)
        x = address(lanes, a * d * arms)
        score_one(v, t, width[a], x, d, arms, scratch, scores)
        for k in range(arms):
            out[a, k] = row[k]


@jit_part
def _picks_into(
    inverse: Floats,
    theta: Floats,
    width: Floats,
    who: Ints,
    lanes: Floats,
    padded: Floats,
    row: Floats,
    out: Ints,
) -> None:
    _, d, arms = lanes.shape
    scratch = target(padded, 0)
    scores = target(row, 0)
    for a in range(who.size):
        v = address(inverse, who[a] * d * d)
        t = address(theta, who[a] * d)
        x = address(lanes, a * d * arms)
        score_one(v, t, width[a], x, d, arms, scratch, scores)
        out[a] = first_best(scores, arms)


@jit_part
def _check_choice(inverse: Floats, theta: Floats, width: Floats, who: Ints, lanes: Floats) -> None:
    _check_model(inverse, theta, lanes.shape[1])
    if width.shape[0] != lanes.shape[0] or who.shape[0] != lanes.shape[0]:
        raise ValueError("one width and one agent are needed for each set of arms")
    check_who(inverse.shape[0], who)


@jit
def scores_optimistic(inverse: Floats, theta: Floats, width: Floats, who: Ints, lanes: Floats) -> Floats:
    """Optimistic scores <theta_i, x_k> + width_a sqrt(max(x_k' V_i x_k, 0)), i = who_a.

    Shapes: inverse V (n, d, d) symmetric, of which the lower triangle is read; theta (n, d); width
    (w,), aligned with who (w,); lanes (w, d, K). Returns (w, K).
    """
    _check_choice(inverse, theta, width, who, lanes)
    w, d, arms = lanes.shape
    out = np.empty((w, arms))
    _scores_into(inverse, theta, width, who, lanes, np.zeros(4 * d), np.empty(max(arms, 4)), out)
    return out


@jit
def pick_optimistic(inverse: Floats, theta: Floats, width: Floats, who: Ints, lanes: Floats) -> Ints:
    """The arm of greatest optimistic score of each awake agent; arguments of `scores_optimistic`.

    Among equal scores the lowest index wins. An agent with a score that is not finite gets
    -1, which `chosen` and `observe` refuse. Returns (w,).
    """
    _check_choice(inverse, theta, width, who, lanes)
    w, d, arms = lanes.shape
    out = np.empty(w, np.int64)
    _picks_into(inverse, theta, width, who, lanes, np.zeros(4 * d), np.empty(max(arms, 4)), out)
    return out


@jit_inside
def pick_one(inverse: Floats, theta: Floats, i: int, width: float, arms: Floats, row: int, room: Floats) -> int:
    """What `pick_optimistic` finds for agent i among the arms in `arms[row]`, as part of a longer compiled loop.

    Nothing is checked. `arms` (m, d, K) are lanes; `room` has `room_for(d, K)` numbers, zeros at first.
    """
    _, d, count = arms.shape
    scores = target(room, 6 * d + 4)
    v = address(inverse, i * d * d)
    x = address(arms, row * d * count)
    score_one(v, address(theta, i * d), width, x, d, count, target(room, 0), scores)
    return first_best(scores, count)


@jit_part
def room_for(d: int, arms: int) -> int:
    """How many numbers `pick_one`, `observe_one`, `accumulate_one` and those of `shared_inverse` need to write in
    between, and 2d + K at the end for whoever calls them.
    """
    return 9 * d + 32 + 2 * max(arms, 4)


@jit_part
def _greedy_into(theta_rows: Floats, lanes: Floats, padded: Floats, row: Floats, out: Ints) -> None:
    w, d, arms = lanes.shape
    scratch = target(padded, 0)
    scores = target(row, 0)
    for a in range(w):
        t = address(theta_rows, a * d)
        x = address(lanes, a * d * arms)
        if arms < 4:
            pad(x, d, arms, scratch)
            _combine(t, 1, scratch, 4, d, 4, scores)
        else:
            _combine(t, 1, x, arms, d, arms, scores)
        out[a] = first_best(scores, arms)


@jit
def pick_greedy(theta_rows: Floats, lanes: Floats) -> Ints:
    """The arm of greatest mean, argmax_k <theta_rows_a, x_k>; ties and non-finite scores as `pick_optimistic`.

    Shapes: theta_rows (w, d), lanes (w, d, K). Returns (w,).
    """
    w, d, arms = lanes.shape
    if theta_rows.shape[0] != w or theta_rows.shape[1] != d:
        raise ValueError("one parameter is needed for each set of arms")
    out = np.empty(w, np.int64)
    _greedy_into(theta_rows, lanes, np.zeros(4 * d), np.empty(max(arms, 4)), out)
    return out


# --- learning


@jit_inside
def gather(lanes: Address, d: int, arms: int, pick: int, out: Address) -> None:
    """Write the arm `pick` of an agent's lanes (d, K)."""
    for i in range(d):
        store(out, i, load(0.0, lanes, i * arms + pick))


@jit_part
def _chosen_into(lanes: Floats, picks: Ints, out: Floats) -> None:
    w, d, arms = lanes.shape
    for a in range(w):
        gather(address(lanes, a * d * arms), d, arms, picks[a], target(out, a * d))


@jit
def chosen(lanes: Floats, picks: Ints) -> Floats:
    """The chosen arms: lanes (w, d, K), picks (w,) to (w, d)."""
    if picks.shape[0] != lanes.shape[0]:
        raise ValueError("one pick is needed for each set of arms")
    _check_picks(lanes.shape[2], picks)
    out = np.empty((lanes.shape[0], lanes.shape[1]))
    _chosen_into(lanes, picks, out)
    return out


@jit_inside
def dot(a: Address, b: Address, d: int) -> float:
    """<a, b>."""
    none = zero(1)
    both = none
    whole = d - d % 4
    for i in range(0, whole, 4):
        both = muladd(load(none, a, i), load(none, b, i), both)
    result: float = total(both)
    for i in range(whole, d):
        result = muladd(load(0.0, a, i), load(0.0, b, i), result)
    return result


@jit_inside
def dot_at(a: Floats, i: int, b: Floats, j: int, d: int) -> float:
    """<a[i : i + d], b[j : j + d]> of C-contiguous arrays, taken as flat; they may be the caller's own, not only those
    it was handed.
    """
    result: float = dot(address(a, i), address(b, j), d)
    return result


@jit_inside
def product(matrix: Address, x: Address, d: int, out: Address) -> None:
    """out = M x for a symmetric M, whose rows serve as its columns."""
    weighted(x, matrix, d, d, d, out)


@jit_inside
def weighted(weights: Address, rows: Address, pitch: int, count: int, size: int, out: Address) -> None:
    """out[c] = sum_j weights[j] rows[j, c] over `count` rows of `size` numbers, which begin `pitch` apart."""
    if size < 4:
        for c in range(size):
            _combine_tile(0.0, weights, 1, address(rows, c), pitch, count, address(out, c))
    else:
        _combine(weights, 1, rows, pitch, count, size, out)


@jit_part
def add_dots(rows: Address, pitch: int, count: int, size: int, x: Address, out: Address) -> None:
    """out[j] += <row j, x> for `count` rows of `size` numbers, which begin `pitch` apart: five at a time, none of which
    waits for another.
    """
    none = zero(1)
    whole = size - size % 4
    j = 0
    while j + 5 <= count:
        r0 = address(rows, j * pitch)
        r1, r2, r3, r4 = address(r0, pitch), address(r0, 2 * pitch), address(r0, 3 * pitch), address(r0, 4 * pitch)
        s0, s1, s2, s3, s4 = none, none, none, none, none
        for c in range(0, whole, 4):
            y = load(none, x, c)
            s0 = muladd(y, load(none, r0, c), s0)
            s1 = muladd(y, load(none, r1, c), s1)
            s2 = muladd(y, load(none, r2, c), s2)
            s3 = muladd(y, load(none, r3, c), s3)
            s4 = muladd(y, load(none, r4, c), s4)
        _add_total(s0, r0, whole, size, x, address(out, j))
        _add_total(s1, r1, whole, size, x, address(out, j + 1))
        _add_total(s2, r2, whole, size, x, address(out, j + 2))
        _add_total(s3, r3, whole, size, x, address(out, j + 3))
        _add_total(s4, r4, whole, size, x, address(out, j + 4))
        j += 5
    while j < count:
        row = address(rows, j * pitch)
        some = none
        for c in range(0, whole, 4):
            some = muladd(load(none, x, c), load(none, row, c), some)
        _add_total(some, row, whole, size, x, address(out, j))
        j += 1


@jit_part
def _add_total(some: Value, row: Address, whole: int, size: int, x: Address, out: Address) -> None:
    result = total(some)
    for c in range(whole, size):
        result = muladd(load(0.0, x, c), load(0.0, row, c), result)
    store(out, 0, load(0.0, out, 0) + result)


@jit_inside
def axpy(scale: float, x: Address, y: Address, d: int) -> None:
    """y += scale x, the last and perhaps overlapping register being read before any is written."""
    none = zero(1)
    if d < 4:
        for c in range(d):
            store(y, c, muladd(scale, load(0.0, x, c), load(0.0, y, c)))
        return
    last = muladd(scale, load(none, x, d - 4), load(none, y, d - 4))
    for c in range(0, d - 4, 4):
        store(y, c, muladd(scale, load(none, x, c), load(none, y, c)))
    store(y, d - 4, last)


@jit_inside
def _add_outer_tile(none: Value, sign: float, x: Address, columns: Address, d: int, matrix: Address) -> None:
    right = mul(sign, load(none, columns, 0))
    for i in range(d):
        store(matrix, 0, muladd(load(0.0, x, i), right, load(none, matrix, 0)))
        matrix = address(matrix, d)


@jit_inside
def add_outer(sign: float, x: Address, d: int, matrix: Address, last: Address) -> None:
    """M += sign x x', sign = 1 or -1, with room for four numbers at `last`.

    Entry (i, j) is rounded as (j, i) is, so that symmetry is kept to the bit.
    """
    if d < 4:
        for c in range(d):
            _add_outer_tile(0.0, sign, x, address(x, c), d, address(matrix, c))
        return
    whole = d - d % 4
    c = 0
    while c < whole:
        left = whole - c
        columns = address(x, c)
        m = address(matrix, c)
        if left >= 20:
            _add_outer_tile(zero(5), sign, x, columns, d, m)
            c += 20
        elif left >= 12:
            _add_outer_tile(zero(3), sign, x, columns, d, m)
            c += 12
        elif left == 8:
            _add_outer_tile(zero(2), sign, x, columns, d, m)
            c += 8
        else:
            _add_outer_tile(zero(1), sign, x, columns, d, m)
            c += 4
    if whole < d:
        # The last register overlaps columns that are done: there it adds zero.
        for c in range(d - 4, whole):
            store(last, c - d + 4, 0.0)
        for c in range(whole, d):
            store(last, c - d + 4, load(0.0, x, c))
        _add_outer_tile(zero(1), sign, x, last, d, address(matrix, d - 4))


@jit_inside
def sherman_morrison(
    inverse: Address, theta: Address, x: Address, y: float, d: int, u: Address, last: Address
) -> float:
    """Sherman-Morrison for one agent; returns q = x' V x before the update."""
    product(inverse, x, d, u)
    q = dot(u, x, d)
    error = y - dot(theta, x, d)
    axpy(error / (1.0 + q), u, theta, d)
    # u u' / (1 + q) as a product of equals keeps the symmetry.
    scale = 1.0 / np.sqrt(1.0 + q)
    for i in range(d):
        store(u, i, scale * load(0.0, u, i))
    add_outer(-1.0, u, d, inverse, last)
    return q


@jit_part
def _rank_one_into(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    who: Ints,
    x: Floats,
    y: Floats,
    scratch: Floats,
    gain: Floats,
) -> None:
    w, d = x.shape
    u = target(scratch, 0)
    last = target(scratch, d)
    for a in range(w):
        i = who[a]
        v = target(inverse, i * d * d)
        q = sherman_morrison(v, target(theta, i * d), address(x, a * d), y[a], d, u, last)
        gain[a] = np.log1p(q)
        logdet[i] += gain[a]


@jit
def rank_one(inverse: Floats, theta: Floats, logdet: Floats, who: Ints, x: Floats, y: Floats) -> Floats:
    """Sherman-Morrison: learn the pair (x_a, y_a) at agent i = who_a, in place.

    With u = V_i x and q = x' u: V_i -= u u' / (1 + q), theta_i += u (y - <theta_i, x>) / (1 + q)
    and logdet_i += log(1 + q). A symmetric V_i stays so, to the bit.

    Shapes: inverse V (n, d, d), theta (n, d), logdet (n,), who (w,), x (w, d), y (w,). Returns the
    gains log(1 + q) (w,).
    """
    w, d = x.shape
    _check_model(inverse, theta, d)
    if logdet.shape[0] != inverse.shape[0] or who.shape[0] != w or y.shape[0] != w:
        raise ValueError("one agent and one reward are needed for each arm")
    check_who(inverse.shape[0], who)
    gain = np.empty(w)
    _rank_one_into(inverse, theta, logdet, who, x, y, np.empty(d + 4), gain)
    return gain


@jit_part
def _accumulate_into(
    gram: Floats, moment: Floats, count: Floats, who: Ints, x: Floats, y: Floats, scratch: Floats
) -> None:
    w, d = x.shape
    last = target(scratch, 0)
    for a in range(w):
        i = who[a]
        here = address(x, a * d)
        add_outer(1.0, here, d, target(gram, i * d * d), last)
        axpy(y[a], here, target(moment, i * d), d)
        count[i] += 1.0


@jit
def accumulate(gram: Floats, moment: Floats, count: Floats, who: Ints, x: Floats, y: Floats) -> None:
    """Add to the sums of agent i = who_a, in place: gram_i += x x', moment_i += y x, count_i += 1.

    Shapes: gram (n, d, d), moment (n, d), count (n,), who (w,), x (w, d), y (w,).
    """
    w, d = x.shape
    _check_model(gram, moment, d)
    if count.shape[0] != gram.shape[0] or who.shape[0] != w or y.shape[0] != w:
        raise ValueError("one agent and one reward are needed for each arm")
    check_who(gram.shape[0], who)
    _accumulate_into(gram, moment, count, who, x, y, np.empty(4))


@jit_inside
def observe_at(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    gram: Floats,
    moment: Floats,
    count: Floats,
    i: int,
    x: Address,
    y: float,
    d: int,
    scratch: Address,
) -> float:
    """The observation (x, y) of agent i, with room for d + 4 numbers; returns the gain."""
    last = address(scratch, d)
    q = sherman_morrison(target(inverse, i * d * d), target(theta, i * d), x, y, d, scratch, last)
    gain: float = np.log1p(q)
    logdet[i] += gain
    add_outer(1.0, x, d, target(gram, i * d * d), last)
    axpy(y, x, target(moment, i * d), d)
    count[i] += 1.0
    return gain


@jit_inside
def _observe_pick(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    gram: Floats,
    moment: Floats,
    count: Floats,
    i: int,
    lanes: Floats,
    row: int,
    pick: int,
    y: float,
    scratch: Address,
) -> float:
    """One observation of agent i, with room for 2d + 4 numbers; returns the gain."""
    _, d, arms = lanes.shape
    gather(address(lanes, row * d * arms), d, arms, pick, scratch)
    return observe_at(inverse, theta, logdet, gram, moment, count, i, scratch, y, d, address(scratch, d))


@jit_inside
def observe_one(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    gram: Floats,
    moment: Floats,
    count: Floats,
    i: int,
    lanes: Floats,
    row: int,
    pick: int,
    y: float,
    room: Floats,
) -> float:
    """What `observe` does for agent i, which has taken the arm `pick` of `lanes[row]`; see `pick_one`."""
    d = lanes.shape[1]
    return _observe_pick(inverse, theta, logdet, gram, moment, count, i, lanes, row, pick, y, target(room, 4 * d))


@jit_part
def accumulate_one(
    gram: Floats, moment: Floats, count: Floats, i: int, lanes: Floats, row: int, pick: int, y: float, room: Floats
) -> None:
    """What `accumulate` does for agent i, which has taken the arm `pick` of `lanes[row]`; see `pick_one`."""
    _, d, arms = lanes.shape
    x = target(room, 4 * d)
    gather(address(lanes, row * d * arms), d, arms, pick, x)
    add_outer(1.0, x, d, target(gram, i * d * d), target(room, 6 * d))
    axpy(y, x, target(moment, i * d), d)
    count[i] += 1.0


@jit_part
def _observe_into(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    gram: Floats,
    moment: Floats,
    count: Floats,
    who: Ints,
    lanes: Floats,
    picks: Ints,
    y: Floats,
    scratch: Floats,
    gain: Floats,
) -> None:
    for a in range(who.size):
        gain[a] = _observe_pick(
            inverse, theta, logdet, gram, moment, count, who[a], lanes, a, picks[a], y[a], target(scratch, 0)
        )


@jit
def observe(
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
    gram: Floats,
    moment: Floats,
    count: Floats,
    who: Ints,
    lanes: Floats,
    picks: Ints,
    y: Floats,
) -> Floats:
    """`chosen`, `rank_one` and `accumulate` in one pass, with the same bits.

    Shapes: inverse and gram (n, d, d), theta and moment (n, d), logdet and count (n,), who, picks
    and y (w,), lanes (w, d, K). Returns the gains (w,).
    """
    w, d, arms = lanes.shape
    n = inverse.shape[0]
    _check_model(inverse, theta, d)
    _check_model(gram, moment, d)
    if gram.shape[0] != n or logdet.shape[0] != n or count.shape[0] != n:
        raise ValueError("matrices, vectors and arms disagree in shape")
    if who.shape[0] != w or picks.shape[0] != w or y.shape[0] != w:
        raise ValueError("one agent, one pick and one reward are needed for each set of arms")
    check_who(n, who)
    _check_picks(arms, picks)
    gain = np.empty(w)
    _observe_into(inverse, theta, logdet, gram, moment, count, who, lanes, picks, y, np.empty(2 * d + 4), gain)
    return gain


# --- factorising


@jit_part
def load_upper(matrix: Address, ridge: float, d: int, upper: Address, pitch: int) -> None:
    """Upper triangle of the symmetric M + ridge I, of which the lower triangle is read."""
    for j in range(d):
        for i in range(j):
            store(upper, i * pitch + j, load(0.0, matrix, j * d + i))
        store(upper, j * pitch + j, load(0.0, matrix, j * d + j) + ridge)


@jit_part
def cholesky(upper: Address, d: int, pitch: int, work: Address) -> bool:
    """In place: the upper triangle of M becomes U with U' U = M; False unless M > 0 and finite.

    What is left of the diagonal is scratch. Rows are `pitch` apart, a multiple of four.
    """
    none = zero(1)
    for k in range(d):
        first = k - k % 4
        row = address(upper, k * pitch)
        _combine(address(upper, k), pitch, address(upper, first), pitch, k, pitch - first, work)
        pivot = load(0.0, row, k) - load(0.0, work, k - first)
        if not (pivot > 0.0 and pivot < np.inf):
            return False
        scale = 1.0 / np.sqrt(pivot)
        for c in range(first, pitch, 4):
            rest = muladd(-1.0, load(none, work, c - first), load(none, row, c))
            store(row, c, mul(scale, rest))
    return True


@jit_part
def forward_solved(upper: Address, d: int, pitch: int, right: Address, out: Address) -> None:
    """Solve U^T out = right, for the factor U that `cholesky` leaves."""
    for k in range(d):
        store(out, k, load(0.0, right, k))
    for k in range(d):
        row = address(upper, k * pitch)
        found = load(0.0, out, k) / load(0.0, row, k)
        store(out, k, found)
        axpy(-found, address(row, k + 1), address(out, k + 1), d - k - 1)


@jit_part
def backward_solved(upper: Address, d: int, pitch: int, out: Address) -> None:
    """Solve U x = out, in place."""
    for step in range(d):
        k = d - 1 - step
        row = address(upper, k * pitch)
        left = load(0.0, out, k) - dot(address(row, k + 1), address(out, k + 1), step)
        store(out, k, left / load(0.0, row, k))


@jit_part
def solved_one(matrix: Floats, ridge: float, right: Floats, out: Floats) -> bool:
    """out = (M + ridge I)^-1 right for one matrix (d, d), of which the lower triangle is read; False unless M + ridge I
    is positive definite and finite.
    """
    d = right.shape[0]
    return _solved_into(matrix, ridge, right, np.empty(d * pitch_of(d)), np.empty(pitch_of(d)), out)


@jit_part
def _solved_into(matrix: Floats, ridge: float, right: Floats, upper: Floats, work: Floats, out: Floats) -> bool:
    d = right.shape[0]
    pitch = pitch_of(d)
    u = target(upper, 0)
    load_upper(address(matrix, 0), ridge, d, u, pitch)
    if not cholesky(u, d, pitch, target(work, 0)):
        return False
    forward_solved(u, d, pitch, address(right, 0), target(out, 0))
    backward_solved(u, d, pitch, target(out, 0))
    return True


@jit_part
def _invert_factor(upper: Address, d: int, pitch: int, lower: Address) -> None:
    """lower = (U')^-1, with zeros right of the diagonal."""
    none = zero(1)
    for k in range(d):
        row = address(lower, k * pitch)
        filled = k - k % 4 + 4
        _combine(address(upper, k), pitch, lower, pitch, k, filled, row)
        store(row, k, -1.0)
        scale = -1.0 / load(0.0, upper, k * pitch + k)
        for c in range(0, filled, 4):
            store(row, c, mul(scale, load(none, row, c)))
        for c in range(filled, pitch, 4):
            store(row, c, none)


@jit_part
def _gram_of_factor(lower: Address, d: int, pitch: int, work: Address, out: Address) -> None:
    """out = W' W for the lower triangular W, both triangles from the same numbers."""
    for i in range(d):
        rows = address(lower, i * pitch)
        _combine(address(rows, i), pitch, rows, pitch, d - i, i - i % 4 + 4, work)
        for c in range(i + 1):
            value = load(0.0, work, c)
            store(out, i * d + c, value)
            store(out, c * d + i, value)


@jit_part
def _logdet(upper: Address, d: int, pitch: int) -> float:
    result = 0.0
    for k in range(d):
        result += np.log(load(0.0, upper, k * pitch + k))
    return 2.0 * result


@jit
def pitch_of(d: int) -> int:
    """How far apart rows of d numbers lie in whole registers."""
    return (d + 3) // 4 * 4


@jit_part
def factorise_one(
    gram: Address,
    moment: Address,
    ridge: float,
    d: int,
    upper: Address,
    lower: Address,
    work: Address,
    inverse: Address,
    theta: Address,
) -> float:
    """What `factorise` finds for one model, as part of a longer compiled loop: V^-1 and theta are written, log det V is
    returned, NaN where there is none.

    Rows of `upper` and `lower` are `pitch_of(d)` apart; `work` has room for two of them.
    """
    pitch = pitch_of(d)
    load_upper(gram, ridge, d, upper, pitch)
    if not cholesky(upper, d, pitch, work):
        return np.nan
    logdet = _logdet(upper, d, pitch)
    _invert_factor(upper, d, pitch, lower)
    _gram_of_factor(lower, d, pitch, work, inverse)
    # theta = W' (W b): the triangular solves, without the rounding of the product W' W.
    for k in range(d):
        store(work, pitch + k, dot(address(lower, k * pitch), moment, k + 1))
    _combine(address(work, pitch), 1, lower, pitch, d, pitch, work)
    for k in range(d):
        value = load(0.0, work, k)
        if not abs(value) < np.inf:  # `isfinite` may be folded to true
            return np.nan
        store(theta, k, value)
    return logdet


@jit_part
def logdet_one(gram: Address, ridge: float, d: int, upper: Address, work: Address) -> float:
    """log det(gram + ridge I) of one matrix; see `factorise_one`."""
    pitch = pitch_of(d)
    load_upper(gram, ridge, d, upper, pitch)
    return _logdet(upper, d, pitch) if cholesky(upper, d, pitch, work) else np.nan


@jit_part
def _factorise_into(
    gram: Floats,
    moment: Floats,
    ridge: float,
    upper: Floats,
    lower: Floats,
    work: Floats,
    inverse: Floats,
    theta: Floats,
    logdet: Floats,
) -> int:
    """Row of the first matrix that cannot be factorised, or -1."""
    m, d = moment.shape
    u, w, s = target(upper, 0), target(lower, 0), target(work, 0)
    for i in range(m):
        a, b = address(gram, i * d * d), address(moment, i * d)
        logdet[i] = factorise_one(a, b, ridge, d, u, w, s, target(inverse, i * d * d), target(theta, i * d))
        if not abs(logdet[i]) < np.inf:
            return i
    return -1


@jit
def _factorise(gram: Floats, moment: Floats, ridge: float) -> tuple[int, tuple[Floats, Floats, Floats]]:
    m, d = moment.shape
    pitch = pitch_of(d)
    inverse = np.empty((m, d, d))
    theta = np.empty((m, d))
    logdet = np.empty(m)
    upper = np.zeros(d * pitch)
    lower = np.zeros(d * pitch)
    failed = _factorise_into(gram, moment, ridge, upper, lower, np.zeros(2 * pitch), inverse, theta, logdet)
    return failed, (inverse, theta, logdet)


@jit_part
def _logdets_into(gram: Floats, ridge: float, upper: Floats, work: Floats, logdet: Floats) -> int:
    m, d, _ = gram.shape
    for i in range(m):
        logdet[i] = logdet_one(address(gram, i * d * d), ridge, d, target(upper, 0), target(work, 0))
        if not abs(logdet[i]) < np.inf:
            return i
    return -1


@jit
def _log_determinants(gram: Floats, ridge: float) -> tuple[int, Floats]:
    m, d, _ = gram.shape
    pitch = pitch_of(d)
    logdet = np.empty(m)
    failed = _logdets_into(gram, ridge, np.zeros(d * pitch), np.zeros(pitch), logdet)
    return failed, logdet


@jit_part
def _sample_into(
    theta: Floats,
    inverse: Floats,
    who: Ints,
    scale: float,
    z: Floats,
    upper: Floats,
    work: Floats,
    out: Floats,
) -> int:
    """Position in `who` of the first agent that cannot be factorised, or -1."""
    w, d = z.shape
    pitch = pitch_of(d)
    u = target(upper, 0)
    s = target(work, 0)
    for a in range(w):
        i = who[a]
        load_upper(address(inverse, i * d * d), 0.0, d, u, pitch)
        if not cholesky(u, d, pitch, s):
            return a
        for k in range(d):
            row = address(u, k * pitch)
            for c in range(k - k % 4, k):
                store(row, c, 0.0)
        for c in range(pitch):
            store(s, c, 0.0)
        for k in range(d):
            first = k - k % 4
            axpy(z[a, k], address(u, k * pitch + first), address(s, first), pitch - first)
        for c in range(d):
            out[a, c] = muladd(scale, load(0.0, s, c), theta[i, c])
    return -1


@jit
def sampled(theta: Floats, inverse: Floats, who: Ints, scale: float, z: Floats) -> tuple[int, Floats]:
    """As `sample_gaussian`, inside compiled functions: which row failed, or -1, and the draws (w, d)."""
    w, d = z.shape
    _check_model(inverse, theta, d)
    if who.shape[0] != w:
        raise ValueError("one agent is needed for each row of z")
    check_who(inverse.shape[0], who)
    pitch = pitch_of(d)
    out = np.empty((w, d))
    failed = _sample_into(theta, inverse, who, scale, z, np.zeros(d * pitch), np.zeros(pitch), out)
    return failed, out


def _check_square(gram: Floats) -> None:
    if gram.ndim != 3 or gram.shape[1] != gram.shape[2]:
        raise ValueError(f"matrices of shape (m, d, d) are needed, not {gram.shape}")


def factorise(gram: Floats, moment: Floats, ridge: float) -> tuple[Floats, Floats, Floats]:
    """Ridge regressions from their sums, by Cholesky: A = gram_i + ridge I = L L' for each i.

    A^-1 = L^-T L^-1 (symmetric to the bit), theta = L^-T L^-1 moment_i, log det A = 2 sum log L_kk.

    Shapes: gram (m, d, d), of which the lower triangle is read, moment (m, d). Returns inverse
    (m, d, d), theta (m, d), logdet (m,), all new. Raises ValueError naming the first row whose A is
    not positive definite or whose numbers are not finite.
    """
    _check_square(gram)
    if moment.shape != gram.shape[:2]:
        raise ValueError(f"moments of shape {gram.shape[:2]} are needed, not {moment.shape}")
    failed, result = _factorise(gram, moment, float(ridge))
    if failed >= 0:
        raise ValueError(f"row {failed}: gram + ridge I is not positive definite, or not finite")
    return result


def log_determinants(gram: Floats, ridge: float) -> Floats:
    """log det(gram_i + ridge I) by Cholesky: gram (m, d, d), lower triangle read, to (m,).

    Raises ValueError as `factorise` does.
    """
    _check_square(gram)
    failed, logdet = _log_determinants(gram, float(ridge))
    if failed >= 0:
        raise ValueError(f"row {failed}: gram + ridge I is not positive definite, or not finite")
    return logdet


def sample_gaussian(theta: Floats, inverse: Floats, who: Ints, scale: float, z: Floats) -> Floats:
    """theta_i + scale L z_a with L L' = inverse_i (Cholesky), i = who_a.

    For z ~ N(0, I) a draw from N(theta_i, scale^2 inverse_i). Shapes: theta (n, d), inverse
    (n, d, d), of which the lower triangle is read, who (w,), z (w, d). Returns (w, d). Raises
    ValueError naming the first agent whose inverse is not positive definite, or not finite.
    """
    failed, sample = sampled(theta, inverse, who, float(scale), z)
    if failed >= 0:
        raise ValueError(f"agent {who[failed]}: inverse is not positive definite, or not finite")
    return sample
