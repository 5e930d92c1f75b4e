"""Agents with functions of their own that are alike as far as the agents are (Dubey 2022, section 8.6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import RKHS, AgentFeatures, Fact, Noise, Norms, Truth
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import World, parts_of
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.laws import Gaussian
from fedbandits.environments.linear import LinearWorld, presences, unit_rows
from fedbandits.environments.smooth import FunctionWorld
from fedbandits.linalg.kernels import aligned
from fedbandits.models.kernels import SquaredExponential

_APART = 10.0
"""How far the features of agents of different clusters are apart where they have nothing in common."""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Drawn(NamedTuple):
    """An instance: agents of kinds `places` (n,) have features `z[places]`; `turns` is the seed of what they see."""

    problem: Problem
    z: FloatArray
    places: IntArray
    turns: np.random.SeedSequence
    presence: FloatArray | None
    truth: Truth | None


@parameters
class Heterogeneous(ABC):
    """`clients` agents v with features z_v, unit vectors, and mean rewards F(x, z_v).

    - `clusters` of them have the same features, and who is in which is random, or as `labels` say; None: every agent
      has features of its own, uniform on the sphere.
    - Contexts: agent v sees `arms` new ones in every turn, x = shift z_v + (1 - shift) u, u uniform on the unit sphere.
      So norms are at most 1, and who is like whom can be told from contexts alone, the better the larger `shift` is;
      with 0 it cannot.
    - `noise` is the standard deviation of rewards; `told`: whether the features are a fact of the problem.

    The thesis has 200 agents, 8 contexts and d = 10, and does not say how contexts are distributed, nor what noise is.
    """

    clients: Annotated[int, Field(ge=1)] = 200
    dim: Annotated[int, Field(ge=1)] = 10
    arms: Annotated[int, Field(ge=1)] = 8
    clusters: Annotated[int, Field(ge=1)] | None = None
    labels: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    shift: Annotated[float, Field(ge=0, lt=1)] = 0.5
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    told: bool = False
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment]

    @model_validator(mode="after")
    def _labels_fit(self) -> Heterogeneous:
        if self.labels is not None and len(self.labels) != self.clients:
            raise ValueError(f"labels: {len(self.labels)} are given for clients={self.clients}; give one for each")
        return self

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        labels = self._labels(rng)
        kinds = self.clients if labels is None else int(labels.max()) + 1
        z = unit_rows(rng, kinds, self.dim)
        places = np.arange(self.clients) if labels is None else labels
        problem = Problem(agents=self.clients, dim=self.dim, arms=self.arms, horizon=horizon)
        problem = problem.knowing(Noise(self.noise), Norms(), *self._facts())
        if self.told:
            features = self._features(z, labels)
            problem = problem.knowing(AgentFeatures(tuple(tuple(row) for row in features[places].tolist())))
        truth = None if labels is None else Truth(tuple(labels.tolist()))
        presence = presences(self.clients, self.stragglers, self.presence, rng)
        return self._world(Drawn(problem, z, places, turns, presence, truth), rng)

    def _labels(self, rng: np.random.Generator) -> IntArray | None:
        if self.labels is not None:
            return np.array(self.labels)
        return None if self.clusters is None else rng.integers(self.clusters, size=self.clients)

    def _features(self, z: FloatArray, labels: IntArray | None) -> FloatArray:
        """What is told of each kind of agent, (kinds, ...)."""
        return z

    def _facts(self) -> tuple[Fact, ...]:
        return ()

    @abstractmethod
    def _world(self, drawn: Drawn, rng: np.random.Generator) -> World:
        """The world of such agents; what else is random in it comes from `rng`."""


@parameters
class HeterogeneousLinear(Heterogeneous):
    """F(x, z_v) = <theta_v, x>, theta_v being a unit vector, and the same within a cluster.

    Without clusters agents are as alike as their features: theta_v is z_v, turned by a rotation that nobody knows.

    The thesis clusters agents "by the independent sets of" G_d. Taken literally, no two agents of one cluster then hear
    each other, and company is worth nothing to anybody. `clusters` are random here; `labels` may say anything.
    """

    clusters: Annotated[int, Field(ge=1)] | None = 5

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="heterogeneous-linear",
        family="kernel",
        summary="linear rewards of agents in clusters, who can be told from their contexts",
        source="Dubey (2022), thesis, section 8.6, first setup",
    )

    def _features(self, z: FloatArray, labels: IntArray | None) -> FloatArray:
        return z if labels is None else _APART * np.eye(len(z))

    def _world(self, drawn: Drawn, rng: np.random.Generator) -> World:
        problem, z, places, turns, presence, truth = drawn
        if truth is not None:
            theta = unit_rows(rng, len(z), self.dim)
        else:
            theta = z @ np.linalg.qr(rng.standard_normal((self.dim, self.dim)))[0]
        source = ShiftedArms(self.arms, self.shift * z[places], 1 - self.shift)
        law = Gaussian(self.noise)
        return LinearWorld(problem, theta[places], source, self.schedule, turns, law, presence, truth)


@parameters
class HeterogeneousRBF(Heterogeneous):
    """F(x, z) = sum_i alpha_i k(c_i, x) k'(e_i, z), of norm B = 1 in the space of K_x K_z, both squared-exponential:
    K_x of length `lengthscale`, K_z of length `likeness`.

    `centres` (c_i, e_i) are contexts and features like those of the agents, alpha is normal, scaled to that norm.
    Agents know K_x (`RKHS`), and K_z only where it is `told`.
    """

    lengthscale: _Positive = 0.5
    likeness: _Positive = 1.0
    centres: Annotated[int, Field(ge=1)] = 100

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="heterogeneous-rbf",
        family="kernel",
        summary="smooth rewards of agents that are more or less alike, as their contexts are",
        source="Dubey (2022), thesis, section 8.6, second setup",
    )

    def _facts(self) -> tuple[Fact, ...]:
        return (RKHS(self.lengthscale, low=-1.0, high=1.0),)

    def _world(self, drawn: Drawn, rng: np.random.Generator) -> World:
        problem, z, places, turns, presence, truth = drawn
        whose = z[rng.integers(len(z), size=self.centres)]
        points = self.shift * whose + (1 - self.shift) * unit_rows(rng, self.centres, self.dim)
        over_points = SquaredExponential((self.lengthscale,) * self.dim)
        over_agents = SquaredExponential((self.likeness,) * self.dim)
        joint = over_points.matrix(points, points) * over_agents.matrix(whose, whose)
        alpha = rng.standard_normal(self.centres)
        alpha /= np.sqrt(alpha @ joint @ alpha)
        function = AgentFunctions(over_points, points, over_agents.matrix(z, whose)[places] * alpha)
        source = ShiftedArms(self.arms, self.shift * z[places], 1 - self.shift, function)
        law = Gaussian(self.noise)
        return FunctionWorld(problem, np.zeros((1, 0)), source, self.schedule, turns, law, presence, truth)


class AgentFunctions:
    """f_v(x) = sum_i weights[v, i] k(c_i, x), with `centres` c (m, d) and `weights` (n, m)."""

    def __init__(self, kernel: SquaredExponential, centres: FloatArray, weights: FloatArray) -> None:
        self.kernel = kernel
        self.centres = centres
        self.weights = weights

    def __call__(self, who: IntArray, points: FloatArray) -> FloatArray:
        """(k,) agents, (k, d) -> (k,)."""
        return np.asarray(np.einsum("km,km->k", self.kernel.matrix(points, self.centres), self.weights[who]))


class ShiftedArms:
    """K new arms for every decision: an agent's own `middle` (n, d) and `radius` times a uniform unit vector."""

    def __init__(self, arms: int, middle: FloatArray, radius: float, function: AgentFunctions | None = None) -> None:
        self._arms = arms
        self.middle = middle
        self.radius = radius
        self.function = function
        self.size = arms * middle.shape[1]

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        dim = self.middle.shape[1]
        lanes = aligned((*who.shape, dim, self._arms))
        rng.standard_normal(out=lanes)
        lanes *= self.radius / np.linalg.norm(lanes, axis=2, keepdims=True)
        lanes += self.middle[who][..., None]
        if self.function is None:
            return lanes, np.einsum("bwd,bwdk->bwk", theta[who], lanes)
        points = np.ascontiguousarray(lanes.swapaxes(2, 3)).reshape(-1, dim)
        values = self.function(np.repeat(who.ravel(), self._arms), points)
        return lanes, values.reshape(*who.shape, self._arms)
