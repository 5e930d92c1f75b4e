"""Quadrature Fourier features: finitely many waves whose inner products are a squared-exponential kernel, nearly.

A stationary kernel is the mean of cos(<omega, x - y>) over its spectral density, which for exp(-r^2 / (2 l^2)) is
N(0, 1/l^2). Gauss-Hermite quadrature takes that mean over m nodes in each coordinate (Mutny & Krause, NeurIPS 2018):

    omega_i = sqrt(2) z_i / l,     Q_i = w_i / sqrt(pi),      z_i and w_i the zeros and weights of H_m,

products of them in several coordinates, and then

    phi(x) = [sqrt(Q_n) cos(<omega_n, x>)]_n ++ [sqrt(Q_n) sin(<omega_n, x>)]_n,      ||phi(x)||^2 = sum Q_n = 1.

As printed in the thesis (Dubey 2022, definition 7.4) the formula lacks a square and has the root over the cosine.

Nodes come in pairs omega, -omega that say the same: one of each with twice the weight, and the constant where m is odd,
are half as many features, of the same kernel to the last digit. Nodes of hardly any weight, such as those in the
corners, are left out as far as the target error allows. Random features, the alternative, would need 1/error^2 waves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS
from fedbandits.models.features.waves import WaveFeatures
from fedbandits.models.kernels import SquaredExponential, Waves, kernel_of

MOST_FEATURES = 2048
"""Beyond which the statistics of a single agent would be a hundred megabytes."""
_MOST_NODES = 10**6
_MOST_IN_ONE = 180
"""Nodes in one coordinate, beyond which weights underflow."""
_GRID = 4001
"""Distances at which the error in one coordinate is measured."""


class QuadratureFeatures(WaveFeatures):
    """The features above, of a `kernel`, with `nodes` m (d,) in each coordinate.

    Where it is `additive`, the kernel is the mean of one kernel for each coordinate, and features are those of the
    coordinates side by side, over sqrt(d). Nodes of the least weight are left out as long as they have at most the
    share `left_out` together, the others having their weight: norms stay 1, and the kernel moves by at most twice that.
    """

    def __init__(self, kernel: SquaredExponential, nodes: Sequence[int], *, left_out: float = 0.0) -> None:
        one = [kernel.waves(m) for m in nodes]
        waves = _side_by_side(one) if kernel.additive else _crossed(one)
        frequencies, weights, constant = _halved(*waves)
        kept, self.lost = _weighty(weights, left_out)
        total = weights[kept].sum() + constant
        roots = np.sqrt(weights[kept] / total)
        super().__init__(frequencies[kept] * kernel.rates, roots, math.sqrt(constant / total))


@lru_cache(maxsize=64)
def quadrature_features(known: RKHS, dim: int, error: float) -> tuple[QuadratureFeatures, float]:
    """Features of the kernel that is `known`, as few as a target `error` needs in the box where arms lie; and by how
    much their inner products are off there, at most.

    Half of the error is for the quadrature: |k - k'| is at most the sum of the errors in single coordinates, or their
    mean where the kernel is additive, since no factor is larger than 1. Each of them gets the fewest nodes that do,
    measured on a grid of distances. The other half is for what is left out. The thesis takes 6 log T nodes in each
    coordinate instead: 3,459 features at T = 1024 and d = 2, where 24 have an error of 1/100.
    """
    kernel = kernel_of(known, dim)
    reaches = [(known.high - known.low) / scale for scale in kernel.scales]
    share = error / 2 if known.additive else error / (2 * dim)
    nodes = [nodes_needed(kernel, reach, share) for reach in reaches]
    if not known.additive and math.prod(nodes) > _MOST_NODES:
        raise ConfigError(
            f"features: an error of {error:g} takes {' x '.join(map(str, nodes))} nodes, which is too many; allow a "
            "larger error, or use an additive kernel"
        )
    found = QuadratureFeatures(kernel, nodes, left_out=error / 4)
    if found.size > MOST_FEATURES:
        raise ConfigError(
            f"features: an error of {error:g} takes {found.size} features, and more than {MOST_FEATURES} are too many; "
            "allow a larger error, or use an additive kernel"
        )
    single = [distance_error(kernel, m, reach) for m, reach in zip(nodes, reaches, strict=True)]
    return found, math.fsum(single) / (dim if known.additive else 1) + 2 * found.lost


@lru_cache(maxsize=4096)
def distance_error(kernel: SquaredExponential, m: int, reach: float) -> float:
    """The largest |k(r) - sum Q_i cos(omega_i r)| in one coordinate, for r up to `reach` length scales, measured on a
    grid that ends there.
    """
    frequencies, weights = kernel.waves(m)
    r = np.linspace(0.0, reach, _GRID)
    return float(np.abs(kernel.profile(r) - np.cos(r[:, None] * frequencies) @ weights).max())


def printed_error(m: int, reach: float, dim: int) -> float:
    """d 2^(d-1) sqrt(pi/2) (1/m)^m (e reach^2/4)^m: the bound of the thesis' theorem 7.2, its root where it belongs.

    It says something once m > reach^2, and is then some orders of magnitude above what is measured.
    """
    return float(dim * 2 ** (dim - 1) * math.sqrt(math.pi / 2) * (math.e * reach**2 / (4 * m)) ** m)


def nodes_needed(kernel: SquaredExponential, reach: float, error: float) -> int:
    """The fewest nodes in one coordinate with an error of at most `error` at distances up to `reach` length scales."""
    if distance_error(kernel, _MOST_IN_ONE, reach) <= error:
        return next(m for m in range(1, _MOST_IN_ONE + 1) if distance_error(kernel, m, reach) <= error)
    raise ConfigError(
        f"features: arms that are {reach:g} length scales apart in one coordinate cannot be told apart by waves; use "
        "longer length scales, a smaller box or a larger error"
    )


def _crossed(one: Sequence[Waves]) -> Waves:
    """All combinations of the coordinates' nodes."""
    frequencies = np.stack(np.meshgrid(*(found for found, _ in one), indexing="ij"), axis=-1)
    weights = np.stack(np.meshgrid(*(weight for _, weight in one), indexing="ij"), axis=-1)
    return frequencies.reshape(-1, len(one)), weights.reshape(-1, len(one)).prod(axis=1)


def _side_by_side(one: Sequence[Waves]) -> Waves:
    """The nodes of each coordinate, in which the others do not matter."""
    count, d = [len(weights) for _, weights in one], len(one)
    frequencies = np.zeros((sum(count), d))
    frequencies[np.arange(sum(count)), np.repeat(np.arange(d), count)] = np.concatenate([found for found, _ in one])
    return frequencies, np.concatenate([weights for _, weights in one]) / d


def _halved(frequencies: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """One of each pair of opposite frequencies, with the weight of both, and the weight of the constant."""
    first = np.argmax(frequencies != 0, axis=1)
    sign = np.take_along_axis(frequencies, first[:, None], axis=1)[:, 0]
    return frequencies[sign > 0], 2 * weights[sign > 0], float(weights[sign == 0].sum())


def _weighty(weights: FloatArray, left_out: float) -> tuple[IntArray, float]:
    """Which waves are kept, in their order, and how much weight the others have: `left_out` at most."""
    order = np.argsort(weights, kind="stable")
    running = np.cumsum(weights[order])
    gone = int(np.searchsorted(running, left_out, side="right"))
    return np.sort(order[gone:]), float(running[gone - 1]) if gone else 0.0
