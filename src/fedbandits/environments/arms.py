"""Where arms come from: fresh at every turn, shown from a fixed pool, or always the same; drawn in blocks, laid out for
SIMD.

A block covers several steps. Its arms lie as (steps, w, d, K), so that the K arms of one agent are lanes of
a vector register; what an agent sees is the transposed view (w, K, d) of one step.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg.jit import jit
from fedbandits.linalg.recycled import Recycled
from fedbandits.linalg.simd import muladd

Spread = Literal["sphere", "decaying", "biased"]
"""Directions uniform on the unit sphere; or Gaussian with coordinate variances (d - j)/d, j = 0..d-1, scaled to unit
norm, the anisotropic arms of the heterogeneous-clients publication's released code; or a constant 1 as last coordinate
behind a uniform direction in the others, hence of norm sqrt(2), the arms of the generalized linear publication's."""


class ArmSource(Protocol):
    """Shows arms to those who are awake."""

    @property
    def size(self) -> int:
        """How many numbers are kept in memory for one decision, roughly; blocks are cut accordingly."""

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their scores <theta_i, x> (B, w, K)."""


class FreshArms:
    """K new arms for every decision."""

    def __init__(self, arms: int, dim: int, spread: Spread) -> None:
        self._arms = arms
        self.size = arms * dim
        self._biased = spread == "biased"
        self._scale = deviations(dim, spread)
        self._lanes, self._means = Recycled(lines=True), Recycled()

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        lanes = self._lanes.empty((*who.shape, len(self._scale), self._arms))
        rng.standard_normal(out=lanes)
        means = self._means.empty((*who.shape, self._arms))
        _finish_fresh(lanes, self._scale, self._biased, theta, who, means)
        return lanes, means


class PoolArms:
    """K arms drawn without replacement from a fixed pool, for every decision."""

    def __init__(self, arms: int, pool: int, dim: int, spread: Spread, rng: np.random.Generator) -> None:
        drawn = rng.standard_normal((pool, dim)) * deviations(dim, spread)
        self.pool = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        if spread == "biased":
            self.pool[:, -1] = 1.0
        self._arms = arms
        self.size = arms * dim
        self._lanes, self._means = Recycled(lines=True), Recycled()
        self._theta: FloatArray | None = None
        self._values = np.empty((0, pool))

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        if self._theta is not theta:
            self._theta, self._values = theta, theta @ self.pool.T
        uniforms = rng.random((*who.shape, self._arms))
        lanes = self._lanes.empty((*who.shape, self.pool.shape[1], self._arms))
        means = self._means.empty((*who.shape, self._arms))
        _show(uniforms, self.pool, self._values, who, lanes, means)
        return lanes, means


class OneSetOfArms:
    """K arms that are drawn once and shown in the same order to everybody, at every turn."""

    def __init__(self, arms: int, dim: int, spread: Spread, rng: np.random.Generator) -> None:
        drawn = PoolArms(arms, arms, dim, spread, rng).pool
        self._lanes = np.ascontiguousarray(drawn.T)
        self.size = arms * dim

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their scores (B, w, K), read-only views of one row."""
        lanes = np.broadcast_to(self._lanes, (*who.shape, *self._lanes.shape))
        scores = theta @ self._lanes
        return lanes, np.broadcast_to(scores[0], (*who.shape, scores.shape[1])) if len(theta) == 1 else scores[who]


class GivenArms:
    """The K `points` (K, d), in the same order for everybody at every turn, with mean rewards `values` (K,)."""

    def __init__(self, points: FloatArray, values: FloatArray) -> None:
        self.points, self.values = points, values
        self._lanes = np.ascontiguousarray(points.T)
        self.size = points.size

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and mean rewards (B, w, K), read-only views of one row."""
        lanes = np.broadcast_to(self._lanes, (*who.shape, *self._lanes.shape))
        return lanes, np.broadcast_to(self.values, (*who.shape, len(self.values)))


class FixedArms:
    """The K unit vectors, in the same order for every decision: an arm is its place, and theta holds the means.

    They take no memory; `size` says how much noise and the like do.
    """

    def __init__(self, arms: int, size: int = 1) -> None:
        self._lanes = np.eye(arms)
        self.size = size

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, K, K) and their scores (B, w, K), read-only views of one row."""
        lanes = np.broadcast_to(self._lanes, (*who.shape, *self._lanes.shape))
        scores = np.broadcast_to(theta[0], (*who.shape, theta.shape[1])) if len(theta) == 1 else theta[who]
        return lanes, scores


def deviations(dim: int, spread: Spread) -> FloatArray:
    """(d,) standard deviations of the coordinates, before arms are scaled to unit norm."""
    if spread == "decaying":
        return np.sqrt((dim - np.arange(dim)) / dim)
    deviations = np.ones(dim)
    if spread == "biased":
        deviations[-1] = 0.0
    return deviations


@jit
def _finish_fresh(
    lanes: FloatArray, scale: FloatArray, biased: bool, theta: FloatArray, who: IntArray, means: FloatArray
) -> None:
    """Scale normals to unit vectors in place; `theta` (1, d) or (n, d) gives their mean rewards."""
    steps, awake, dim, arms = lanes.shape
    norm = np.empty(arms)
    for s in range(steps):
        for i in range(awake):
            own = who[s, i] if theta.shape[0] > 1 else 0
            norm[:] = 0.0
            for j in range(dim):
                for k in range(arms):
                    x = lanes[s, i, j, k] * scale[j]
                    lanes[s, i, j, k], norm[k] = x, muladd(x, x, norm[k])
            for k in range(arms):
                norm[k] = 1.0 / np.sqrt(norm[k])
                means[s, i, k] = 0.0
            for j in range(dim):
                for k in range(arms):
                    x = 1.0 if biased and j == dim - 1 else lanes[s, i, j, k] * norm[k]
                    lanes[s, i, j, k], means[s, i, k] = x, muladd(theta[own, j], x, means[s, i, k])


@jit
def _show(
    uniforms: FloatArray, pool: FloatArray, values: FloatArray, who: IntArray, lanes: FloatArray, means: FloatArray
) -> None:
    """A uniform K-subset in uniform order by a partial shuffle; any permutation may be its start."""
    steps, awake, arms = uniforms.shape
    size, dim = pool.shape
    order = np.arange(size)
    for s in range(steps):
        for i in range(awake):
            own = who[s, i] if values.shape[0] > 1 else 0
            for k in range(arms):
                j = k + int(uniforms[s, i, k] * (size - k))
                order[k], order[j] = order[j], order[k]
                means[s, i, k] = values[own, order[k]]
            for k in range(arms):
                row = order[k]
                for j in range(dim):
                    lanes[s, i, j, k] = pool[row, j]
