"""Sums over what agents have observed: gradients of the squared loss, and statistics of the last hidden layer.

Numbers of observations differ from agent to agent; nothing is padded. Rewards enter as (y - shift) / spread, so that
whoever trains may standardise them without changing what is stored.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import (
    BLOCK,
    backward,
    check_parameters,
    enter,
    forward,
    level_of,
    places,
    read,
)
from fedbandits.models.observations import Observations


def gradient_sums(
    network: Architecture,
    theta: FloatArray,
    data: Observations,
    who: IntArray,
    end: IntArray,
    *,
    shift: FloatArray | None = None,
    spread: FloatArray | None = None,
) -> FloatArray:
    """(w, p) the sum of (f(x; theta) - y) grad f(x; theta) over the first `end` (w,) observations of each of `who`.

    `theta` is (w, p), or (1, p) for all; y = (reward - shift) / spread, (w,) each, or as it is.
    """
    shift, spread = _scaled(who, shift, spread)
    own = _rows(network, theta, who)
    return _gradient_sums(
        network.sizes,
        int(network.biased),
        network.scale,
        theta,
        own,
        data.arms,
        data.rewards,
        who,
        end,
        shift,
        spread,
    )


def feature_sums(
    network: Architecture,
    theta: FloatArray,
    data: Observations,
    who: IntArray,
    end: IntArray,
    *,
    shift: FloatArray | None = None,
    spread: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """(w, q, q) sum z z^T and (w, q) sum y z, z being the last hidden layer at `theta`; as `gradient_sums`."""
    shift, spread = _scaled(who, shift, spread)
    own = _rows(network, theta, who)
    gram, moment = (
        kernels.aligned((len(who), network.features, network.features)),
        np.zeros((len(who), network.features)),
    )
    _feature_sums(
        network.sizes,
        int(network.biased),
        theta,
        own,
        data.arms,
        data.rewards,
        who,
        end,
        shift,
        spread,
        gram,
        moment,
    )
    return gram, moment


def descend(
    network: Architecture,
    theta: FloatArray,
    data: Observations,
    who: IntArray,
    end: IntArray,
    *,
    steps: int,
    rate: float,
    loss: float,
    decay: float,
    anchor: FloatArray,
) -> None:
    """Move `theta` (w, p), in place, by gradient descent on the first `end` (w,) observations of each of `who`.

    Each of the `steps` is, m being that number,

        theta <- theta - (rate / m) [loss sum (f - y) grad f + decay (theta - anchor)],     anchor (p,).

    The same as `descended` by `Descent`, without coming back in between.
    """
    own = _rows(network, theta, who)
    if len(theta) != len(who) or anchor.shape != theta.shape[1:]:
        raise ValueError(f"{theta.shape} parameters for {len(who)} agents, anchored at {anchor.shape}")
    shift, spread = _scaled(who, None, None)
    _descend(
        network.sizes,
        int(network.biased),
        network.scale,
        theta,
        own,
        data.arms,
        data.rewards,
        who,
        end,
        shift,
        spread,
        steps,
        rate,
        loss,
        decay,
        anchor,
    )


def _scaled(who: IntArray, shift: FloatArray | None, spread: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    first = np.zeros(len(who)) if shift is None else np.array(shift, dtype=np.float64)
    second = np.ones(len(who)) if spread is None else np.array(spread, dtype=np.float64)
    return first, second


def _rows(network: Architecture, theta: FloatArray, who: IntArray) -> IntArray:
    check_parameters(network, theta)
    if len(theta) not in (1, len(who)):
        raise ValueError(f"{len(theta)} rows of parameters for {len(who)} agents")
    return np.zeros(len(who), dtype=np.int64) if len(theta) == 1 else np.arange(len(who))


@jit
def _gradient_sums(
    sizes: IntArray,
    bias: int,
    scale: float,
    theta: FloatArray,
    own: IntArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    shift: FloatArray,
    spread: FloatArray,
) -> FloatArray:
    starts = places(sizes, bias)
    space, back = np.empty(starts[-1] * BLOCK), np.empty(starts[-1] * BLOCK)
    gaps = np.empty(BLOCK)
    largest = 0
    for level in range(1, len(sizes)):
        largest = max(largest, sizes[level] * (sizes[level - 1] + bias))
    part = np.empty(largest)
    q = sizes[-1] + bias
    out = np.zeros((len(who), theta.shape[1]))
    for a in range(len(who)):
        i, point = who[a], theta[own[a]]
        for begin in range(0, end[a], BLOCK):
            count = min(BLOCK, end[a] - begin)
            enter(arms[i], begin, count, bias, space)
            head = forward(sizes, bias, point, starts, count, space)
            last = level_of(space, starts[-2], q, count)
            read(last, point[head:], scale, gaps)
            for s in range(count):
                gaps[s] = scale * (gaps[s] - (rewards[i, begin + s] - shift[a]) / spread[a])
            backward(sizes, bias, point, starts, count, space, gaps, head, back)
            at = 0
            for level in range(1, len(sizes)):
                height, size = sizes[level], sizes[level - 1] + bias
                product = part[: height * size].reshape(height, size)
                below = level_of(space, starts[level - 1], size, count)
                np.dot(level_of(back, starts[level], height, count), below.T, product)
                for k in range(height * size):
                    out[a, at + k] += part[k]
                at += height * size
            for j in range(q):
                total = 0.0
                for s in range(count):
                    total += gaps[s] * last[j, s]
                out[a, at + j] += total
    return out


@jit
def _descend(
    sizes: IntArray,
    bias: int,
    scale: float,
    theta: FloatArray,
    own: IntArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    shift: FloatArray,
    spread: FloatArray,
    steps: int,
    rate: float,
    loss: float,
    decay: float,
    anchor: FloatArray,
) -> None:
    for _ in range(steps):
        slope = _gradient_sums(sizes, bias, scale, theta, own, arms, rewards, who, end, shift, spread)
        for a in range(len(who)):
            share = rate / max(end[a], 1)
            for k in range(theta.shape[1]):
                theta[a, k] -= share * (loss * slope[a, k] + decay * (theta[a, k] - anchor[k]))


@jit
def _feature_sums(
    sizes: IntArray,
    bias: int,
    theta: FloatArray,
    own: IntArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    shift: FloatArray,
    spread: FloatArray,
    gram: FloatArray,
    moment: FloatArray,
) -> None:
    starts = places(sizes, bias)
    space = np.empty(starts[-1] * BLOCK)
    q = sizes[-1] + bias
    part = np.empty((q, q))
    for a in range(len(who)):
        i = who[a]
        for begin in range(0, end[a], BLOCK):
            count = min(BLOCK, end[a] - begin)
            enter(arms[i], begin, count, bias, space)
            forward(sizes, bias, theta[own[a]], starts, count, space)
            last = level_of(space, starts[-2], q, count)
            np.dot(last, last.T, part)
            for j in range(q):
                for k in range(j + 1):
                    gram[a, j, k] += part[j, k]
                total = 0.0
                for s in range(count):
                    total += (rewards[i, begin + s] - shift[a]) / spread[a] * last[j, s]
                moment[a, j] += total
        for j in range(q):  # one triangle is computed: the other is the same to the last bit
            for k in range(j):
                gram[a, k, j] = gram[a, j, k]
