"""Kernels over pairs of an agent and a point, composed of one over agents and one over points; and their features.

Agents v have functions f_v(x) = F(v, x) of their own, F being in the space of K((v, x), (w, y)), which is

- ``"product"``: K_z(v, w) K_x(x, y), the thesis' Hadamard composition;
- ``"kronecker"``: the same function: an observation has one agent and one point, and the entry of the Kronecker
  product of two Gram matrices that belongs to a pair of them is that product;
- ``"sum"``: (K_z(v, w) + K_x(x, y)) / 2, halved so that K stays at most 1 where both are.

Dubey (2022), thesis, sections 8.4 and 8.10.2.

Features of a joint kernel are psi(v, x) with <psi(v, x), psi(w, y)> = K, nearly, of dimension D at most:

- K_x linear: x (x) z_v, z_v z_w^T being K_z. With m agents within reach that is exact for d m <= D; beyond, z keeps the
  D/d largest eigenvalues, and the rows of z their norms.
- K_x stationary: D/2 random waves, cos and sin of <omega_j, x>, each times zeta_j(v), where zeta_j is drawn from
  N(0, K_z) over the agents within reach; zeta(v) is scaled so that ||psi(v, x)||^2 = K_z(v, v). Entries of K are then
  off by sqrt((1 + 2 K_z^2) / D) for points far from each other, by sqrt(2 (1 - K_z^2) / D) for the same point: 0.06 to
  0.11 for 256 features. Where K_z is 1 for all, zeta is left out, and the error is sqrt(1/D) at most. (Products of
  the features of both kernels would be as many as the product of their numbers.)
- sums are features side by side, over sqrt(2): half of them waves, the others for z.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.streams import Streams
from fedbandits.models.features import RandomFourierFeatures
from fedbandits.models.kernels import Kernel, Linear, Matern, SquaredExponential

Composition = Literal["product", "sum", "kronecker"]
_FIRST = np.zeros(1, dtype=np.int64)


def composed(composition: Composition, agents: FloatArray, points: FloatArray) -> FloatArray:
    """K of K_z and K_x, which broadcast."""
    return np.asarray((agents + points) / 2 if composition == "sum" else agents * points)


class JointFeatures:
    """Features psi of a joint kernel for `agents` agents, of dimension `most` at most.

    They are made in two steps, since the first can be shared by all who have heard of a point: `of_points` are the
    features of K_x, and `joined` what becomes of them with the `mixing` of those within reach. What is drawn is common
    to all agents of a federation.
    """

    def __init__(self, kernel: Kernel, composition: Composition, most: int, agents: int, rng: Streams) -> None:
        self._sums = composition == "sum"
        self._most = most
        self._linear = isinstance(kernel, Linear)
        self.size = kernel.dim
        """Of features of points."""
        if self._linear:
            return
        if not isinstance(kernel, SquaredExponential | Matern):
            raise ConfigError(f"features: {type(kernel).__name__} has no random features; say features=0")
        common = rng.common("joint features")
        waves = max(1, most // 4 if self._sums else most // 2)
        self._waves = RandomFourierFeatures(kernel, 2 * waves, common)
        self._draws = common.standard_normal((agents, waves))
        self.size = self._waves.size

    def exact(self, reach: int, same: bool) -> bool:
        """Whether they are the kernel itself for so many agents within reach, or where K_z is 1 for all."""
        return self._linear and (same or (self.size + reach if self._sums else self.size * reach) <= self._most)

    def of_points(self, points: FloatArray) -> FloatArray:
        """(k, d) -> (k, size): features of K_x, number by number, whatever stands beside a point."""
        if self._linear:
            return points
        return np.ascontiguousarray(self._waves.of(_FIRST, points[None])[0])

    def mixing(self, table: FloatArray | None) -> FloatArray | None:
        """K_z over those within reach, (m, m), or None where it is 1 for all -> what `joined` needs, a row for each."""
        if table is None:
            return None
        values, vectors = np.linalg.eigh(table)
        if self._linear or self._sums:
            room = self._most - self.size if self._sums else self._most // self.size
            kept = max(1, min(len(table), room))
            rows = vectors[:, -kept:] * np.sqrt(np.maximum(values[-kept:], 0.0))
        else:
            rows = (vectors * np.sqrt(np.maximum(values, 0.0))) @ self._draws[: len(table)]
            rows /= np.sqrt(rows.shape[1])
        norms = np.sqrt((rows * rows).sum(axis=1))
        rows *= (np.sqrt(np.diag(table)) / np.where(norms > 0, norms, 1.0))[:, None]
        if not (self._linear or self._sums):
            rows = np.tile(rows * np.sqrt(rows.shape[1]), 2)
        return np.ascontiguousarray(rows)

    def joined(self, points: FloatArray, mixed: FloatArray | None) -> FloatArray:
        """(k, size) features of points, and (k, r) the agents' rows of the mixing -> (k, D)."""
        if mixed is None:
            if not self._sums:
                return points
            mixed = np.ones((len(points), 1))
        if self._sums:
            return np.asarray(np.concatenate([points, mixed], axis=1) / np.sqrt(2.0))
        if self._linear:
            return (points[:, :, None] * mixed[:, None, :]).reshape(len(points), -1)
        return points * mixed

    def error(self, table: FloatArray | None, points: FloatArray, kernel: Kernel) -> float:
        """The root mean square of psi psi^T - K over all pairs of agents within reach and of `points` (k, d)."""
        z = np.ones((1, 1)) if table is None else table
        m, k = len(z), len(points)
        rows = self.mixing(table)
        psi = self.joined(np.tile(self.of_points(points), (m, 1)), None if rows is None else np.repeat(rows, k, axis=0))
        between = kernel.matrix(points, points)
        true = (
            np.kron(z, np.ones((k, k))) / 2 + np.kron(np.ones((m, m)), between) / 2
            if self._sums
            else np.kron(z, between)
        )
        return float(np.sqrt(((psi @ psi.T - true) ** 2).mean()))
