"""NeuralUCB and NeuralTS: every agent alone with a network of its own, by optimism or by sampling."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.neural.parameters import NetworkParameters
from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.climbing import Climbing
from fedbandits.models.features.features import Features
from fedbandits.models.features.tangent import MovingTangent, TangentFeatures
from fedbandits.models.judging import DrawingAgents, JudgingAgents
from fedbandits.models.networks.tangent_spread import TangentSpread
from fedbandits.models.observations import Observations
from fedbandits.models.spreads import Spreads

Matrix = Literal["full", "diagonal"]

_LEAST, _TINY = 1e-6, 1e-12
"""How small the deviation of a draw may be beside the largest, and at all."""


@parameters
class NeuralUCB(NetworkParameters):
    """argmax f(x; theta_i) + nu sqrt(lambda) sqrt(g^T U_i^-1 g), g = grad f(x; theta_i): by every agent alone.

    U_i = lambda I + sum g g^T over what agent i chose, each gradient at the parameters of that time, or the diagonal
    of it (`matrix`). With ``tangent="beginning"`` gradients are taken at theta_0 and stay, as in the analysis. They
    need not be written down then, where a network of one hidden layer has at least twice as many parameters as there
    are turns: the same index up to rounding, at a cost that does not grow with p^2 (`models.networks.tangent_spread`).
    Training and profiles are those of `NetworkParameters`. The released code of Dai et al. has nu under the root: its
    nu = 0.01 is 0.1 here, which is the default.

    Guarantee: for networks that are wide enough regret O(d~ sqrt(T)), d~ the effective dimension of the tangent kernel
    (Zhou, Li & Gu); not for widths and steps that anybody uses, nor for a constant nu or a diagonal.
    """

    profile: Literal["paper", "code"] = "code"
    nu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    matrix: Matrix = "full"
    tangent: Literal["now", "beginning"] = "now"

    about: ClassVar[About] = About(
        name="neural-ucb",
        family="neural",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none for widths and constants in use",
        source="Zhou, Li & Gu, ICML 2020",
        environment="cosine",
    )

    @property
    def printed(self) -> bool:
        """See `NetworkParameters`."""
        return self.profile == "paper"

    def agents(self, problem: Problem, n: int, rng: Streams) -> TrainedAgents:
        """n agents, each of whom trains a network."""
        return TrainedAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@parameters
class NeuralTS(NeuralUCB):
    """As `NeuralUCB`, with a draw from N(f, nu^2 lambda g^T U^-1 g) for each arm, independently, in place of an index.

    Guarantee: as there, none in use.
    """

    about: ClassVar[About] = About(
        name="neural-ts",
        family="neural",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none for widths and constants in use",
        source="Zhang, Zhou, Li & Gu, ICLR 2021",
        environment="cosine",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> SamplingAgents:
        """n agents, each of whom trains a network and draws."""
        return SamplingAgents(self, problem, n, rng)


class TrainedAgents(JudgingAgents, Climbing):
    """`network` holds everybody's parameters, `data` all observations, and `spread` U.

    `spread` is U of everybody, (p, p) each, or diagonals (n, p), or U in the space of observations.
    """

    keeps: ClassVar[tuple[str, ...]] = ("network", "data", "spread")

    def __init__(self, parameters: NeuralUCB, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(n)
        self._parameters = parameters
        beginning = parameters.beginning(problem, rng)
        self._anchor = parameters.anchor(beginning)
        self.network = MovingTangent(parameters.network(problem), beginning, n, parameters.divisor)
        self.data = Observations(n, problem.dim, problem.horizon)
        self._tangent: Features = self.network
        if parameters.tangent == "beginning":
            self._tangent = TangentFeatures(self.network.network, beginning, parameters.divisor)
        self.spread: Spreads | TangentSpread | FloatArray
        fewer = (
            parameters.tangent == "beginning" and parameters.layers == 1 and 2 * problem.horizon <= self.network.size
        )
        if parameters.matrix == "full" and fewer:
            network, ridge = self.network.network, parameters.ridge
            self.spread = TangentSpread(n, network, beginning, ridge, parameters.divisor)
        elif parameters.matrix == "full":
            self.spread = Spreads(n, self.network.size, parameters.ridge)
        else:
            self.spread = np.full((n, self.network.size), parameters.ridge)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`: its gradient as the network was, and then training."""
        check_feedback(who, arms, picks, rewards, self._n, self.network.dim)
        x = arms[np.arange(len(who)), picks]
        if isinstance(self.spread, TangentSpread):
            self.spread.learn(who, x)
        elif isinstance(self.spread, Spreads):
            self.spread.learn(who, self._tangent.of(who, x[:, None])[:, 0])
        else:
            self.spread[who] += self._tangent.of(who, x[:, None])[:, 0] ** 2
        self.data.add(who, arms, picks, rewards)
        training = who[self.data.count[who] <= self._parameters.until]
        if len(training):
            theta = self.network.theta[training]
            end = self.data.count[training]
            self._parameters.train(self.network.network, theta, self.data, training, end, self._anchor)
            self.network.theta[training] = theta

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) what the networks say of each arm, and how far they may be off."""
        check_arms(who, arms, self._n, self.network.dim)
        found = self.network.offsets(who, arms)
        assert found is not None
        width = self._parameters.nu * np.sqrt(self._parameters.ridge)
        if isinstance(self.spread, TangentSpread):
            return found, width * self.spread.lengths(who, arms)
        phi = self._tangent.of(who, arms)
        if isinstance(self.spread, Spreads):
            return found, width * self.spread.lengths(who, phi)
        return found, np.asarray(width * np.sqrt((phi**2 / self.spread[who][:, None]).sum(axis=2)))


class SamplingAgents(DrawingAgents, TrainedAgents):
    """Agents that draw a value for each arm."""

    keeps: ClassVar[tuple[str, ...]] = (*TrainedAgents.keeps, "rng")

    def __init__(self, parameters: NeuralUCB, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(parameters, problem, n, rng)
        self.rng = rng

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        # an arm at which all units are at rest has no gradient: a draw of no extent is no draw
        found, deviations = super()._judged(who, arms)
        return found, np.maximum(deviations, _LEAST * deviations.max(axis=1, keepdims=True) + _TINY)
