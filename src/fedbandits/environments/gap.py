"""Clicks with a gap: one arm is better than all others by a known amount, at every turn (Dubey 2022, section 6.6)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import World, parts_of
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.laws import Bernoulli
from fedbandits.environments.linear import LinearWorld, presences, unit_rows
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import aligned
from fedbandits.linalg.simd import muladd

_Level = Annotated[float, Field(ge=0, le=1)]


@parameters
class Gap:
    """Clicks of probability <theta, x>, theta uniform on the unit sphere; of the K arms of a decision one has a
    probability in [low + width + gap, low + 2 width + gap], and the others have one in [low, low + width].

    By default those are [0.7, 0.8] and [0.5, 0.6], as in the thesis. An arm is x = a theta + nuisance u + z: its
    probability a is uniform in its band, u a direction orthogonal to theta that the seed draws, and z uniform in the
    ball orthogonal to theta whose radius sqrt(1 - a^2) - nuisance keeps ||x|| <= 1. The best arm's place is random.

    The thesis draws theta in the unit ball; with ||x|| <= 1 such arms exist only where ||theta|| >= 0.8. How arms
    are spread beside theta, and K, it leaves open. Its instance (``nuisance=0``) is kind to learners: the mean of all
    arms is parallel to theta, so that the plain average of y x already finds its direction, however strong the
    regulariser. `Gap2` is the same with a mean that points elsewhere.
    """

    clients: Annotated[int, Field(ge=1)] = 100
    dim: Annotated[int, Field(ge=2)] = 10
    arms: Annotated[int, Field(ge=1)] = 20
    low: _Level = 0.5
    width: _Level = 0.1
    gap: _Level = 0.1
    nuisance: _Level = 0.0
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="gap",
        family="linear",
        summary="clicks of linear probability, one arm better than the others by a gap",
        source="Dubey (2022), thesis, section 6.6",
    )

    @model_validator(mode="after")
    def _arms_fit_into_the_unit_ball(self) -> Gap:
        if self.highest > 1 + 1e-12:
            raise ValueError(
                f"the best arm's probability would reach {self.highest:g}: low + 2 width + gap must not exceed 1"
            )
        room = np.sqrt(max(0.0, 1 - self.highest**2))
        if self.nuisance > room:
            raise ValueError(
                f"nuisance={self.nuisance:g} leaves no arm of norm 1 with probability {self.highest:g}; "
                f"it can be {room:.3g} at most"
            )
        return self

    @property
    def highest(self) -> float:
        """The largest probability of the best arm."""
        return self.low + 2 * self.width + self.gap

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        theta, aside = _two_directions(rng, self.dim)
        sizes = Problem(agents=self.clients, dim=self.dim, arms=self.arms, horizon=horizon)
        problem = sizes.knowing(Noise(0.5), Norms(), Range(0.0, 1.0))
        presence = presences(self.clients, self.stragglers, self.presence, rng)
        source = GapArms(self, aside)
        return LinearWorld(problem, theta, source, self.schedule, turns, Bernoulli("identity"), presence)


@parameters
class Gap2(Gap):
    """As `Gap`, but arms have a mean of length `nuisance` in a direction that does not matter."""

    nuisance: _Level = 0.3

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="gap2",
        family="linear",
        summary="as gap, but the mean of all arms does not point to the best",
        source="beyond Dubey (2022), thesis, section 6.6",
    )


class GapArms:
    """K new arms for every decision, the best at a random place; `aside` (d,) is the direction of the nuisance."""

    def __init__(self, gap: Gap, aside: FloatArray) -> None:
        self._gap = gap
        self._aside = aside
        self.size = gap.arms * gap.dim

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w) and `theta` (1, d): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        gap = self._gap
        lanes = aligned((*who.shape, gap.dim, gap.arms))
        rng.standard_normal(out=lanes)
        means = rng.random((*who.shape, gap.arms))
        best = rng.integers(gap.arms, size=who.shape)
        short = rng.standard_exponential((*who.shape, gap.arms))
        _finish(lanes, means, best, short, theta[0], self._aside, gap.low, gap.width, gap.gap, gap.nuisance)
        return lanes, means


def _two_directions(rng: np.random.Generator, dim: int) -> tuple[FloatArray, FloatArray]:
    """(1, d) a uniform direction, and (d,) one that is uniform among those orthogonal to it."""
    theta = unit_rows(rng, 1, dim)
    aside = rng.standard_normal(dim)
    aside -= theta[0] * (theta[0] @ aside)
    return theta, aside / np.linalg.norm(aside)


@jit
def _finish(
    lanes: FloatArray,
    means: FloatArray,
    best: IntArray,
    short: FloatArray,
    theta: FloatArray,
    aside: FloatArray,
    low: float,
    width: float,
    gap: float,
    nuisance: float,
) -> None:
    """Turn normals into arms and uniform numbers into their means, in place.

    A normal vector g of dimension m over sqrt(||g||^2 + 2 E), E standard exponential, is uniform in the unit ball.
    """
    steps, awake, dim, arms = lanes.shape
    along = np.empty(arms)
    norm = np.empty(arms)
    for s in range(steps):
        for i in range(awake):
            for k in range(arms):
                means[s, i, k] = muladd(width, means[s, i, k], low)
                along[k] = 0.0
                norm[k] = 2.0 * short[s, i, k]
            means[s, i, best[s, i]] += width + gap
            for j in range(dim):
                for k in range(arms):
                    along[k] = muladd(theta[j], lanes[s, i, j, k], along[k])
            for j in range(dim):
                for k in range(arms):
                    x = muladd(-theta[j], along[k], lanes[s, i, j, k])
                    lanes[s, i, j, k], norm[k] = x, muladd(x, x, norm[k])
            for k in range(arms):
                room = np.sqrt(max(0.0, muladd(-means[s, i, k], means[s, i, k], 1.0))) - nuisance
                norm[k] = max(0.0, room) / np.sqrt(norm[k])
            for j in range(dim):
                for k in range(arms):
                    x = muladd(means[s, i, k], theta[j], nuisance * aside[j])
                    lanes[s, i, j, k] = muladd(norm[k], lanes[s, i, j, k], x)
