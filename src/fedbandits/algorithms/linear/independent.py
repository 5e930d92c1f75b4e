"""Independent agents: every one alone, by optimism or by Thompson sampling."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_finite
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams, WordArray, next_uniform
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit_inside
from fedbandits.linalg.quantiles import address_of, normal_quantile
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeArrays, RidgeModels, learn_one
from fedbandits.models.untold import all_finite
from fedbandits.models.winning import winning_jointly


@parameters
class IndependentLinUCB(LinearParameters):
    """LinUCB (OFUL) by every agent alone: argmax <theta_i, x> + width ||x||_{V_i^-1} on its own observations.

    Guarantee: regret O(d sqrt(T) log T) for each agent, O(n d sqrt(T) log T) together (theory width).
    """

    about: ClassVar[About] = About(
        name="independent-linucb",
        family="linear",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(d sqrt(T) log T) per agent (theory width)",
        source="Abbasi-Yadkori, Pal & Szepesvari, NeurIPS 2011",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents that never call."""
        return self.optimists(problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@parameters
class IndependentLinTS:
    """Linear Thompson sampling by every agent alone: theta~ ~ N(theta_i, nu^2 V_i^-1), then argmax <theta~, x>.

    Guarantee: none is claimed for the default. The frequentist bound O(d^1.5 sqrt(T) log T) of Agrawal & Goyal (2013)
    needs nu = sigma sqrt(9 d log(T/delta)), far above what works in practice.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    nu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1

    about: ClassVar[About] = About(
        name="independent-lints",
        family="linear",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none for a constant nu",
        source="Agrawal & Goyal, ICML 2013",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> LinTSAgents:
        """n sampling agents."""
        return LinTSAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@quiet
class Sampling(NamedTuple):
    """`LinTSAgents` for compiled loops."""

    models: RidgeArrays
    nu: float
    words: WordArray
    quantile: int
    one: IntArray
    """(1,) and"""
    normals: FloatArray
    """(1, d): room for who draws, and for what."""


@stands_for(choose, Sampling)
@jit_inside
def _choose(agents: Sampling, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not all_finite(arms, row):
        return -1
    for j in range(arms.shape[1]):
        agents.normals[0, j] = normal_quantile(agents.quantile, next_uniform(agents.words, i))
    agents.one[0] = i
    failed, drawn = kernels.sampled(agents.models.theta, agents.models.inverse, agents.one, agents.nu, agents.normals)
    if failed >= 0:
        raise ValueError("an inverse is not positive definite, or not finite")
    return int(kernels.pick_greedy(drawn, arms[row : row + 1])[0])


@stands_for(learn, Sampling)
@jit_inside
def _learn(agents: Sampling, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    return learn_one(agents.models, i, arms, row, pick, reward, room)


class LinTSAgents(OptimisticAgents):
    """Agents that act greedily on a draw from their posterior."""

    keeps: ClassVar[tuple[str, ...]] = (*OptimisticAgents.keeps, "rng")

    def __init__(self, parameters: IndependentLinTS, problem: Problem, n: int, rng: Streams) -> None:
        like = LinearParameters(ridge=parameters.ridge)
        super().__init__(like.models(problem, n), like.widths(problem, problem.dim))
        self._nu = parameters.nu
        self.rng = rng

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The best arm under one draw of the parameter for each agent in `who`."""
        models = self.models
        check_arms(who, arms, len(models), models.dim)
        check_finite("arms", who, arms)  # before the streams move on
        normals = self.rng.normal(who, models.dim)
        drawn = kernels.sample_gaussian(models.theta, models.inverse, who, self._nu, normals)
        return kernels.pick_greedy(drawn, kernels.as_lanes(arms))

    def compiled(self) -> Any:
        """See `Population`."""
        drawn = untouched(self.rng, Streams, "uniform", "normal")
        spoken_for = untouched(self, LinTSAgents, "choose", "learn", "calling")
        if not drawn or not spoken_for or type(self.models) is not RidgeModels:
            return None
        room = np.zeros(1, dtype=np.int64), np.zeros((1, self.models.dim))
        return Sampling(self.models.arrays(), float(self._nu), self.rng.words, address_of("normal"), *room)

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """None: what is compared is drawn."""
        return None

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The chance of every arm to be the best under a draw, to two digits (`models.winning`); see `Population`."""
        models = self.models
        check_arms(who, arms, len(models), models.dim)
        check_finite("arms", who, arms)
        found = np.empty(arms.shape[:2])
        for row, agent in enumerate(who):
            factor = self._nu * np.linalg.cholesky(models.inverse[agent])
            found[row] = winning_jointly(arms[row] @ models.theta[agent], arms[row] @ factor)
        return found
