"""What networks say of arms: outputs, last hidden layers, and gradients in all parameters, arm by arm.

Agents are gone over one by one, and each in blocks of 128 observations whose products are left to BLAS. No product
spans two agents, so that an agent alone computes the same bits as among others.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.models.networks.architecture import Architecture

BLOCK = 128
"""Observations that go through a network together: enough for BLAS, few enough to stay in a cache."""


def outputs(network: Architecture, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
    """(w, K) f(x; theta) of `arms` (w, K, d); row i has the parameters `theta[rows[i]]`, theta being (n, p)."""
    lanes = _lanes(network, theta, rows, arms)
    out = np.empty(arms.shape[:2])
    outputs_into(network.sizes, int(network.biased), network.scale, theta, rows, lanes, out)
    return out


def hidden(network: Architecture, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
    """(w, K, q) the last hidden layer of each arm, and a 1 behind it where there are biases; as `outputs`."""
    lanes = _lanes(network, theta, rows, arms)
    out = kernels.aligned((len(arms), network.features, arms.shape[1]))
    _hidden(network.sizes, int(network.biased), theta, rows, lanes, out)
    return out.transpose(0, 2, 1)


def gradients(network: Architecture, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
    """(w, K, p) the gradient of f(x; theta) in theta for each arm; as `outputs`."""
    lanes = _lanes(network, theta, rows, arms)
    out = np.empty((len(arms), network.parameters, arms.shape[1]))
    gradients_into(network.sizes, int(network.biased), network.scale, theta, rows, lanes, out)
    return out.transpose(0, 2, 1)


def _lanes(network: Architecture, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
    check_parameters(network, theta)
    if arms.shape[2] != network.inputs or len(rows) != len(arms):
        raise ValueError(f"arms {arms.shape} do not fit {len(rows)} networks of {network.inputs} inputs")
    if not _are_there(rows, len(theta)):
        raise IndexError("rows name parameters that are not there")
    return lanes_of(arms)


def lanes_of(arms: FloatArray) -> FloatArray:
    """`kernels.as_lanes`, as one type of array, for which functions are compiled once."""
    lanes = kernels.as_lanes(arms)
    return lanes if lanes.flags.writeable else lanes.copy()


def check_parameters(network: Architecture, theta: FloatArray) -> None:
    """Raise unless `theta` is (n, p), row by row in memory."""
    if theta.ndim != 2 or theta.shape[1] != network.parameters or not theta.flags.c_contiguous:
        raise ValueError(f"parameters need the shape (n, {network.parameters}) and rows in memory, got {theta.shape}")


@jit
def _are_there(rows: IntArray, n: int) -> bool:
    found = True
    for row in rows:
        found &= 0 <= row < n
    return found


@jit_part
def places(sizes: IntArray, bias: int) -> IntArray:
    """(L,) where each level begins in a workspace, in columns; the last entry is behind all of them."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    for level in range(len(sizes)):
        starts[level + 1] = starts[level] + sizes[level] + bias
    return starts


@jit_part
def level_of(space: FloatArray, start: int, height: int, count: int) -> FloatArray:
    """A (height, count) matrix at place `start` of a workspace."""
    return space[start * BLOCK : start * BLOCK + height * count].reshape(height, count)


@jit_part
def enter(inputs: FloatArray, begin: int, count: int, bias: int, level: FloatArray) -> None:
    """Fill level 0 (d + bias, count): `count` columns of `inputs` (d, c) from `begin` on, ones below where biased."""
    d = inputs.shape[0]
    for j in range(d):
        for s in range(count):
            level[j, s] = inputs[j, np.uint64(begin + s)]
    if bias:
        level[d] = 1.0


@jit_part
def rectify(level: FloatArray) -> None:
    """max(., 0) of all entries, in place; what is no number stays so."""
    for j in range(level.shape[0]):
        row = level[j]
        for s in range(len(row)):
            row[s] = 0.0 if row[s] <= 0.0 else row[s]


@jit_part
def forward(
    sizes: IntArray, bias: int, theta: FloatArray, starts: IntArray, count: int, first: FloatArray, space: FloatArray
) -> int:
    """Fill levels 1 to L-1 from level 0, `first`, the last one as it is before its rectifier; returns where w begins in
    `theta` (p,).
    """
    at = 0
    for level in range(1, len(sizes)):
        height, below = sizes[level], sizes[level - 1] + bias
        weights = theta[at : at + height * below].reshape(height, below)
        out = level_of(space, starts[level], height, count)
        np.dot(weights, first if level == 1 else level_of(space, starts[level - 1], below, count), out)
        if level < len(sizes) - 1:
            rectify(out)
        if bias:
            level_of(space, starts[level], height + 1, count)[height] = 1.0
        at += height * below
    return at


@jit_part
def read(last: FloatArray, bias: int, weights: FloatArray, scale: float, out: FloatArray) -> None:
    """Rectify the last level (q, count), in place, and read f = scale <w, a> off each of its columns."""
    count, height = last.shape[1], last.shape[0] - bias
    found = out[:count]
    found[:] = weights[height] if bias else 0.0
    for j in range(height):
        row, weight = last[j], weights[j]
        for s in range(count):
            unit = 0.0 if row[s] <= 0.0 else row[s]
            row[s] = unit
            found[s] += weight * unit
    for s in range(count):
        found[s] *= scale


@jit_part
def slope_of(
    sizes: IntArray, starts: IntArray, level: int, count: int, space: FloatArray, back: FloatArray
) -> FloatArray:
    """(height, count) what `backward` has found of a level."""
    held = space if level == len(sizes) - 1 else back
    return level_of(held, starts[level], sizes[level], count)


@jit_part
def backward(
    sizes: IntArray,
    bias: int,
    theta: FloatArray,
    starts: IntArray,
    count: int,
    space: FloatArray,
    weights: FloatArray,
    at: int,
    back: FloatArray,
    head: FloatArray,
) -> None:
    """Find what the sum over columns of weight times f changes by per unit before each rectifier, level by level (see
    `slope_of`): that of the last level takes its place in `space`, those of levels below go to `back`, laid out alike.
    `weights` (count,) include the scale, and w begins `at`.

    To `head` (q,) what that sum changes by per unit of w is added.
    """
    top = len(sizes) - 1
    level = level_of(space, starts[top], sizes[top], count)
    given = weights[:count]
    for j in range(sizes[top]):
        row, weight, total = level[j], theta[at + j], 0.0
        for s in range(count):
            share = given[s] if row[s] > 0.0 else 0.0
            total += share * row[s]
            row[s] = weight * share
        head[j] += total
    if bias:
        head[sizes[top]] += given.sum()
    for lower in range(top - 1, 0, -1):
        height, below = sizes[lower + 1], sizes[lower] + bias
        at -= height * below
        matrix = theta[at : at + height * below].reshape(height, below)
        # the row that belongs to the constant comes last and is not used; the next level's place begins behind it
        product = level_of(back, starts[lower], below, count)
        np.dot(matrix.T, slope_of(sizes, starts, lower + 1, count, space, back), product)
        level = level_of(space, starts[lower], sizes[lower], count)
        for j in range(sizes[lower]):
            row, out = level[j], product[j]
            for s in range(count):
                out[s] = out[s] if row[s] > 0.0 else 0.0


@jit
def outputs_into(
    sizes: IntArray, bias: int, scale: float, theta: FloatArray, rows: IntArray, lanes: FloatArray, out: FloatArray
) -> None:
    """`outputs` of arms as `lanes` (w, d, K), to `out` (w, K); nothing is checked."""
    starts = places(sizes, bias)
    space, found = np.empty(starts[-1] * BLOCK), np.empty(BLOCK)
    for a in range(len(rows)):
        own = theta[rows[a]]
        for begin in range(0, lanes.shape[2], BLOCK):
            count = min(BLOCK, lanes.shape[2] - begin)
            first = level_of(space, 0, sizes[0] + bias, count)
            enter(lanes[a], begin, count, bias, first)
            at = forward(sizes, bias, own, starts, count, first, space)
            read(level_of(space, starts[-2], sizes[-1] + bias, count), bias, own[at:], scale, found)
            out[a, begin : begin + count] = found[:count]


@jit
def _hidden(sizes: IntArray, bias: int, theta: FloatArray, rows: IntArray, lanes: FloatArray, out: FloatArray) -> None:
    starts = places(sizes, bias)
    space = np.empty(starts[-1] * BLOCK)
    for a in range(len(rows)):
        for begin in range(0, lanes.shape[2], BLOCK):
            count = min(BLOCK, lanes.shape[2] - begin)
            first = level_of(space, 0, sizes[0] + bias, count)
            enter(lanes[a], begin, count, bias, first)
            forward(sizes, bias, theta[rows[a]], starts, count, first, space)
            last = level_of(space, starts[-2], sizes[-1] + bias, count)
            rectify(last)
            out[a, :, begin : begin + count] = last


@jit
def gradients_of_chosen(
    sizes: IntArray, bias: int, scale: float, theta: FloatArray, rows: IntArray, lanes: FloatArray, picks: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(w, d) the arms that were picked of `lanes` (w, d, K), and (w, p) `gradients` of these; nothing is checked."""
    w, d, _ = lanes.shape
    chosen, out = np.empty((w, d, 1)), np.empty((w, theta.shape[1], 1))
    for a in range(w):
        for j in range(d):
            chosen[a, j, 0] = lanes[a, j, picks[a]]
    gradients_into(sizes, bias, scale, theta, rows, chosen, out)
    return chosen.reshape(w, d), out.reshape(w, theta.shape[1])


@jit
def gradients_into(
    sizes: IntArray, bias: int, scale: float, theta: FloatArray, rows: IntArray, lanes: FloatArray, out: FloatArray
) -> None:
    """`gradients` of arms as `lanes` (w, d, K), to `out` (w, p, K); nothing is checked."""
    starts = places(sizes, bias)
    space, back = np.empty(starts[-1] * BLOCK), np.empty(starts[-1] * BLOCK)
    weights, unused = np.full(BLOCK, scale), np.zeros(sizes[-1] + bias)
    for a in range(len(rows)):
        own = theta[rows[a]]
        for begin in range(0, lanes.shape[2], BLOCK):
            count = min(BLOCK, lanes.shape[2] - begin)
            first = level_of(space, 0, sizes[0] + bias, count)
            enter(lanes[a], begin, count, bias, first)
            head = forward(sizes, bias, own, starts, count, first, space)
            last = level_of(space, starts[-2], sizes[-1] + bias, count)
            rectify(last)
            for j in range(last.shape[0]):
                for s in range(count):
                    out[a, head + j, begin + s] = scale * last[j, s]
            backward(sizes, bias, own, starts, count, space, weights, head, back, unused)
            at = 0
            for level in range(1, len(sizes)):
                height, size = sizes[level], sizes[level - 1] + bias
                delta = slope_of(sizes, starts, level, count, space, back)
                below = level_of(space, starts[level - 1], size, count)
                for j in range(height):
                    for i in range(size):
                        for s in range(count):
                            out[a, at + j * size + i, begin + s] = delta[j, s] * below[i, s]
                at += height * size
