"""Agents in unknown clusters: alike inside, different across."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.compiled import Block
from fedbandits.contract.facts import Truth
from fedbandits.contract.parameters import parameters
from fedbandits.contract.world import Outcome, Turn, World, parts_of
from fedbandits.environments.arms import Spread
from fedbandits.environments.linear import Linear, LinearWorld, unit_rows

_SOURCE = "Blaser, Li & Wang, AISTATS 2024"
_ATTEMPTS = 10_000


@parameters
class ClusteredLinear(Linear):
    """theta_i = centre of its cluster + r u, u uniform on the unit sphere, r uniform in [0, epsilon].

    - `clusters` M centres, agents assigned uniformly at random, or `sizes` of the clusters, agents in random order;
    - `gamma` the least distance between agents of different clusters: centres are redrawn until they are at least
      gamma + 2 epsilon apart;
    - `epsilon` the radius, by default 1/(n sqrt(T)), within which a cluster counts as homogeneous;
    - `centres`: ``"sphere"``, uniform unit vectors; ``"half-sphere"``, those with a non-negative coordinate sum, as the
      publication's released code draws them (random unit vectors are far apart: gamma is practically inactive in both);
      ``"equidistant"``, unit vectors at distance exactly gamma + 2 epsilon from each other, so that gamma matters.

    The publication: d = 25, pool of 1000, 25 shown, n = 50, M = 5, gamma = 0.85, noise 0.1. Its text draws arms and
    centres from N(0, I) and assumes norms of at most 1; both are scaled to unit norm here, as in its code, whose arms
    are ``spread="decaying"``.
    """

    pool: Annotated[int, Field(ge=1)] | None = 1000
    spread: Spread = "decaying"
    clusters: Annotated[int, Field(ge=1)] = 5
    sizes: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    gamma: Annotated[float, Field(ge=0, le=2)] = 0.85
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    centres: Literal["sphere", "half-sphere", "equidistant"] = "half-sphere"

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="clustered-linear",
        family="clustered",
        summary="agents in unknown clusters with different linear rewards, balanced or not",
        source=_SOURCE,
    )

    @model_validator(mode="after")
    def _sizes_add_up(self) -> ClusteredLinear:
        if self.sizes is not None and sum(self.sizes) != self.clients:
            raise ValueError(f"sizes={self.sizes} add up to {sum(self.sizes)}, not to clients={self.clients}")
        if self.centres == "equidistant" and self.count >= self.dim:
            raise ValueError(f"equidistant centres need fewer clusters ({self.count}) than dim={self.dim}")
        return self

    @property
    def count(self) -> int:
        """The number of clusters M."""
        return self.clusters if self.sizes is None else len(self.sizes)

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        radius = self._radius(horizon)
        centres = self._centres(rng, self.gamma + 2 * radius)
        labels = self._labels(rng)
        theta = self._around(rng, centres, labels, radius)
        truth = Truth(tuple(labels.tolist()))
        source, presence = self._source(rng), self._presence(rng)
        return LinearWorld(self._problem(horizon), theta, source, self.schedule, turns, self._law(), presence, truth)

    def _radius(self, horizon: int) -> float:
        return 1 / (self.clients * np.sqrt(horizon)) if self.epsilon is None else self.epsilon

    def _labels(self, rng: np.random.Generator) -> IntArray:
        if self.sizes is None:
            return rng.integers(self.clusters, size=self.clients)
        return rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))

    def _around(self, rng: np.random.Generator, centres: FloatArray, labels: IntArray, radius: float) -> FloatArray:
        away = radius * rng.random((self.clients, 1)) * unit_rows(rng, self.clients, self.dim)
        return np.asarray(centres[labels] + away)

    def _centres(self, rng: np.random.Generator, apart: float) -> FloatArray:
        if self.centres == "equidistant":
            if apart > np.sqrt(2):
                raise ValueError(
                    f"equidistant centres are at most sqrt(2) apart, not {apart:.3g}; lower gamma or epsilon"
                )
            frame = np.linalg.qr(rng.standard_normal((self.dim, self.count + 1)))[0].T
            return np.asarray(apart / np.sqrt(2) * frame[1:] + np.sqrt(1 - apart**2 / 2) * frame[:1])
        found = np.empty((0, self.dim))
        for _ in range(_ATTEMPTS):
            drawn = unit_rows(rng, 1, self.dim)
            if self.centres == "half-sphere":
                drawn *= np.where(drawn.sum() < 0, -1.0, 1.0)
            if (np.linalg.norm(found - drawn, axis=1) >= apart).all():
                found = np.vstack([found, drawn])
            if len(found) == self.count:
                return found
        raise ValueError(
            f"{self.count} centres in dimension {self.dim} cannot be drawn {apart:.3g} apart; lower gamma or epsilon"
        )


@parameters
class ClusteredDrift(ClusteredLinear):
    """Clusters that drift: after a share `at` of the horizon, a share `movers` of the agents joins another cluster.

    A mover takes over the parameter of a random member of a cluster that has members; nobody else's changes.
    """

    at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    movers: Annotated[float, Field(ge=0, le=1)] = 0.3

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="clustered-drift",
        family="clustered",
        summary="as clustered-linear, but some agents change cluster on the way",
        source="beyond " + _SOURCE,
    )

    @model_validator(mode="after")
    def _has_somewhere_to_go(self) -> ClusteredDrift:
        if self.count < 2:
            raise ValueError("agents need at least 2 clusters to move between; raise clusters")
        return self

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        before = super().world(horizon, seed)
        assert isinstance(before, LinearWorld)
        rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2)))
        known = before.truth()
        assert known is not None
        labels = np.array(known.clusters)
        moving = rng.permutation(self.clients)[: round(self.movers * self.clients)]
        moved = labels.copy()
        inhabited, place = np.unique(labels, return_inverse=True)
        if len(inhabited) > 1:
            away = rng.integers(1, len(inhabited), size=len(moving))
            moved[moving] = inhabited[(place[moving] + away) % len(inhabited)]
        host = np.array([rng.choice(np.flatnonzero(labels == to)) for to in moved])
        theta = np.where((moved == labels)[:, None], before.theta, before.theta[host])
        after = before.with_parameters(theta)
        return DriftingWorld(before, after, Truth(tuple(moved.tolist())), int(np.ceil(self.at * horizon)))


class DriftingWorld(World):
    """One world before step `change`, another with another `truth` from then on; arms and noise are those of both."""

    def __init__(self, before: LinearWorld, after: LinearWorld, truth: Truth, change: int) -> None:
        self.problem = before.problem
        self._moved = truth
        self.change = change
        self._before, self._after = before, after

    def turn(self, step: int) -> Turn:
        """Who is awake, and what they see; see `World`."""
        return self._at(step).turn(step)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """Rewards and pseudo-regrets; see `World`."""
        return self._at(step).pay(step, picks)

    def block(self, step: int) -> Block | None:
        """See `World`: up to the change, or from there on."""
        block = self._at(step).block(step)
        if block is None or step >= self.change:
            return block
        return block._replace(who=block.who[: self.change - block.first])

    def truth(self, step: int = 0) -> Truth | None:
        """Who is alike in `step`; see `World`."""
        return self._before.truth() if step < self.change else self._moved

    def _at(self, step: int) -> LinearWorld:
        return self._before if step < self.change else self._after
