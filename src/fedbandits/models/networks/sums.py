"""Sums over what agents have observed: gradients of the squared loss, and statistics of the last hidden layer.

Numbers of observations differ from agent to agent; nothing is padded. Rewards enter as (y - shift) / spread, so that
whoever trains may standardise them without changing what is stored.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import dot_at
from fedbandits.models.networks import shallow
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
    rectify,
    slope_of,
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
    if len(network.hidden) == 1:
        return _shallow_sums(
            network.hidden[0],
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
    farthest: float = np.inf,
) -> None:
    """Move `theta` (w, p), in place, by gradient descent on the first `end` (w,) observations of each of `who`.

    Each of the `steps` is, m being that number,

        theta <- theta - (rate / m) [loss sum (f - y) grad f + decay (theta - anchor)],     anchor (p,).

    The same as `descended` by `Descent`, without coming back in between. Parameters that end up longer than `farthest`
    are cut down to that length, and those whose length is no number stay as they were.
    """
    check_parameters(network, theta)
    if len(theta) != len(who) or anchor.shape != theta.shape[1:]:
        raise ValueError(f"{theta.shape} parameters for {len(who)} agents, anchored at {anchor.shape}")
    bias, scale, pull = int(network.biased), network.scale, (rate, loss, decay)
    if len(network.hidden) == 1:
        units = network.hidden[0]
        _descend_shallow(units, bias, scale, theta, data.arms, data.rewards, who, end, steps, pull, anchor, farthest)
    else:
        _descend(network.sizes, bias, scale, theta, data.arms, data.rewards, who, end, steps, pull, anchor, farthest)


def _scaled(who: IntArray, shift: FloatArray | None, spread: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    first = np.zeros(len(who)) if shift is None else np.array(shift, dtype=np.float64)
    second = np.ones(len(who)) if spread is None else np.array(spread, dtype=np.float64)
    return first, second


def _rows(network: Architecture, theta: FloatArray, who: IntArray) -> IntArray:
    check_parameters(network, theta)
    if len(theta) not in (1, len(who)):
        raise ValueError(f"{len(theta)} rows of parameters for {len(who)} agents")
    return np.zeros(len(who), dtype=np.int64) if len(theta) == 1 else np.arange(len(who))


@jit_part
def _packed(inputs: FloatArray, end: int, bias: int) -> FloatArray:
    """The first `end` columns of `inputs` (d, c) as levels 0 of one block after the other."""
    height = inputs.shape[0] + bias
    packed = np.empty(height * end)
    for begin in range(0, end, BLOCK):
        count = min(BLOCK, end - begin)
        enter(inputs, begin, count, bias, _block(packed, begin, height, count))
    return packed


@jit_part
def _block(packed: FloatArray, begin: int, height: int, count: int) -> FloatArray:
    return packed[begin * height : (begin + count) * height].reshape(height, count)


@jit_part
def _passed(
    sizes: IntArray,
    bias: int,
    point: FloatArray,
    starts: IntArray,
    packed: FloatArray,
    begin: int,
    end: int,
    space: FloatArray,
) -> tuple[FloatArray, FloatArray, int]:
    """Send the block of observations from `begin` on through one network: its level 0, its last level before the
    rectifier, and where w begins in `point`.
    """
    count = min(BLOCK, end - begin)
    first = _block(packed, begin, sizes[0] + bias, count)
    head = forward(sizes, bias, point, starts, count, first, space)
    return first, level_of(space, starts[-2], sizes[-1] + bias, count), head


@jit_part
def _space(sizes: IntArray, starts: IntArray, bias: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Room for the levels of a block and for what comes back through them, for its gaps, and for one matrix."""
    largest = 0
    for level in range(1, len(sizes)):
        largest = max(largest, sizes[level] * (sizes[level - 1] + bias))
    return np.empty(starts[-1] * BLOCK), np.empty(starts[-1] * BLOCK), np.empty(BLOCK), np.empty(largest)


@jit_part
def _add_slope(
    sizes: IntArray,
    bias: int,
    scale: float,
    point: FloatArray,
    starts: IntArray,
    packed: FloatArray,
    targets: FloatArray,
    spaces: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Add the sum of (f - target) grad f over one agent's `packed` observations to `out` (p,)."""
    space, back, gaps, part = spaces
    for begin in range(0, len(targets), BLOCK):
        first, last, head = _passed(sizes, bias, point, starts, packed, begin, len(targets), space)
        count = last.shape[1]
        read(last, bias, point[head:], scale, gaps)
        wanted = targets[begin : begin + count]
        for s in range(count):
            gaps[s] = scale * (gaps[s] - wanted[s])
        backward(sizes, bias, point, starts, count, space, gaps, head, back, out[head:])
        at = 0
        for level in range(1, len(sizes)):
            height, size = sizes[level], sizes[level - 1] + bias
            product = part[: height * size]
            inner = first if level == 1 else level_of(space, starts[level - 1], size, count)
            slope = slope_of(sizes, starts, level, count, space, back)
            np.dot(slope, inner.T, product.reshape(height, size))
            sums = out[at : at + height * size]
            for k in range(height * size):
                sums[k] += product[k]
            at += height * size


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
    spaces = _space(sizes, starts, bias)
    out = np.zeros((len(who), theta.shape[1]))
    for a in range(len(who)):
        packed = _packed(arms[who[a]], end[a], bias)
        targets = (rewards[who[a], : end[a]] - shift[a]) / spread[a]
        _add_slope(sizes, bias, scale, theta[own[a]], starts, packed, targets, spaces, out[a])
    return out


@jit
def _shallow_sums(
    units: int,
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
    spaces = shallow.room(arms.shape[1] + bias, units)
    out = np.zeros((len(who), theta.shape[1]))
    for a in range(len(who)):
        packed = shallow.pack(arms[who[a]], end[a], bias)
        targets = (rewards[who[a], : end[a]] - shift[a]) / spread[a]
        shallow.add_slope(theta[own[a]], units, bias, scale, packed, targets, spaces, out[a])
    return out


@jit
def _descend(
    sizes: IntArray,
    bias: int,
    scale: float,
    theta: FloatArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    steps: int,
    pull: tuple[float, float, float],
    anchor: FloatArray,
    farthest: float,
) -> None:
    starts = places(sizes, bias)
    spaces = _space(sizes, starts, bias)
    slope, before = np.empty(theta.shape[1]), np.empty(theta.shape[1])
    for a in range(len(who)):
        packed, targets, point = _packed(arms[who[a]], end[a], bias), rewards[who[a], : end[a]], theta[a]
        before[:] = point
        for _ in range(steps):
            slope[:] = 0.0
            _add_slope(sizes, bias, scale, point, starts, packed, targets, spaces, slope)
            _step(point, slope, end[a], pull, anchor)
        _hold(point, before, farthest)


@jit
def _descend_shallow(
    units: int,
    bias: int,
    scale: float,
    theta: FloatArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    steps: int,
    pull: tuple[float, float, float],
    anchor: FloatArray,
    farthest: float,
) -> None:
    spaces = shallow.room(arms.shape[1] + bias, units)
    slope, before = np.empty(theta.shape[1]), np.empty(theta.shape[1])
    for a in range(len(who)):
        packed, targets, point = shallow.pack(arms[who[a]], end[a], bias), rewards[who[a], : end[a]], theta[a]
        before[:] = point
        for _ in range(steps):
            slope[:] = 0.0
            shallow.add_slope(point, units, bias, scale, packed, targets, spaces, slope)
            _step(point, slope, end[a], pull, anchor)
        _hold(point, before, farthest)


@jit_part
def _step(
    point: FloatArray, slope: FloatArray, count: int, pull: tuple[float, float, float], anchor: FloatArray
) -> None:
    """See `descend`, in place; `pull` is rate, loss and decay."""
    rate, loss, decay = pull
    share = rate / max(count, 1)
    for k in range(len(point)):
        point[k] -= share * (loss * slope[k] + decay * (point[k] - anchor[k]))


@jit_part
def _hold(point: FloatArray, before: FloatArray, farthest: float) -> None:
    """Cut parameters down to a length of `farthest`; those that are lost become what they were `before`."""
    square = 0.0
    for k in range(len(point)):
        square += point[k] * point[k]
    length = np.sqrt(square)
    if not length < np.inf:
        point[:] = before
    elif length > farthest:
        point *= farthest / length


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
        packed = _packed(arms[who[a]], end[a], bias)
        targets = (rewards[who[a], : end[a]] - shift[a]) / spread[a]
        for begin in range(0, end[a], BLOCK):
            _, last, _ = _passed(sizes, bias, theta[own[a]], starts, packed, begin, end[a], space)
            count = last.shape[1]
            rectify(last)
            np.dot(last, last.T, part)
            for j in range(q):
                for k in range(j + 1):
                    gram[a, j, k] += part[j, k]
                moment[a, j] += dot_at(last, j * count, targets, begin, count)
        for j in range(q):  # one triangle is computed: the other is the same to the last bit
            for k in range(j):
                gram[a, k, j] = gram[a, j, k]
