"""Sums over what agents have observed to which no single observation adds more than a known amount.

As `sums`, with what one observation adds cut down to a norm of `cut`: what noise needs to know of sums that it protects
people in. For networks of one hidden layer with biases, f = <w, z>, z = [max(W [x; 1], 0); 1], whose gradient is an
outer product and z: its norm is known before it is written down, and it never is,

    ||grad f||^2 = ||w o 1(z > 0)||^2 (||x||^2 + 1) + ||z||^2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import hidden
from fedbandits.models.observations import Observations

_FIRST = np.zeros(1, dtype=np.int64)
_BLOCK = 512
"""Observations that are gone over together."""


def cut_gradient_sums(
    network: Architecture,
    theta: FloatArray,
    data: Observations,
    who: IntArray,
    end: IntArray,
    *,
    shift: FloatArray,
    spread: FloatArray,
    cut: float,
) -> FloatArray:
    """(w, p) the sum of (f - y) grad f, each cut down to a norm of `cut`; as `sums.gradient_sums`."""
    if len(network.hidden) != 1 or not network.biased or network.scale != 1.0:
        raise ValueError(f"{network} is no network of one hidden layer with biases")
    out, inside = np.zeros((len(who), network.parameters)), network.parameters - network.features
    for row, point, x, y in _blocks(theta, data, who, end, shift, spread):
        head, z = point[0, inside:], hidden(network, point, _FIRST, x)[0]
        entered = np.concatenate([x[0], np.ones((len(y), 1))], axis=1)
        gaps = z @ head - y
        back = np.where(z[:, :-1] > 0, head[:-1], 0.0)
        squares = (back**2).sum(axis=1) * (entered**2).sum(axis=1) + (z**2).sum(axis=1)
        gaps *= np.minimum(1.0, cut / np.maximum(np.abs(gaps) * np.sqrt(squares), cut))
        out[row, :inside] += ((gaps[:, None] * back).T @ entered).ravel()
        out[row, inside:] += gaps @ z
    return out


def cut_feature_sums(
    network: Architecture,
    theta: FloatArray,
    data: Observations,
    who: IntArray,
    end: IntArray,
    *,
    shift: FloatArray,
    spread: FloatArray,
    cut: float,
) -> tuple[FloatArray, FloatArray]:
    """(w, q, q) sum z z^T and (w, q) sum y z, z cut down to a norm of `cut`; as `sums.feature_sums`."""
    gram, moment = np.zeros((len(who), network.features, network.features)), np.zeros((len(who), network.features))
    for row, point, x, y in _blocks(theta, data, who, end, shift, spread):
        z = shortened(hidden(network, point, _FIRST, x)[0], cut)
        gram[row] += z.T @ z
        moment[row] += y @ z
    return (gram + gram.transpose(0, 2, 1)) / 2, moment


def shortened(rows: FloatArray, cut: float) -> FloatArray:
    """(..., k) -> (..., k), none longer than `cut`."""
    lengths = np.sqrt(np.einsum("...k,...k->...", rows, rows))
    return np.asarray(rows * np.minimum(1.0, cut / np.maximum(lengths, cut))[..., None])


def _blocks(
    theta: FloatArray, data: Observations, who: IntArray, end: IntArray, shift: FloatArray, spread: FloatArray
) -> Iterator[tuple[int, FloatArray, FloatArray, FloatArray]]:
    """Row by row, parameters (1, p), contexts (1, k, d) and targets (k,) of some observations of one agent."""
    for row, agent in enumerate(who):
        point = theta[:1] if len(theta) == 1 else theta[row : row + 1]
        for begin in range(0, int(end[row]), _BLOCK):
            some = slice(begin, min(begin + _BLOCK, int(end[row])))
            yield row, point, data.arms[agent, :, some].T[None], (data.rewards[agent, some] - shift[row]) / spread[row]
