"""Random linear MDPs: chances and rewards are linear in features that lie on a simplex."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import AgentFeatures, Fact
from fedbandits.contract.parameters import parameters
from fedbandits.environments.planning.episodic import EpisodicEnvironment, Tables


@parameters
class LinearMDP(EpisodicEnvironment):
    """P_h(x' | x, a) = <phi(x, a), mu_h(x')> and r_h(x, a) = <phi(x, a), theta_h>, with `states`, `arms` and `dim` d.

    phi are points of the simplex, drawn from a Dirichlet law of weight `spread` for each corner: the smaller, the
    closer to corners. mu_h are d laws on states, each of which favours few of them, theta_h is uniform in [0, 1]^d; in
    every stage others. Episodes begin in any state.
    """

    states: Annotated[int, Field(ge=2)] = 20
    dim: Annotated[int, Field(ge=1)] = 5
    arms: Annotated[int, Field(ge=1)] = 4
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.3

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="linear-mdp",
        family="planning",
        summary="a random linear MDP with features on a simplex, the same for all agents or a little off",
        source="setting of Jin, Yang, Wang & Jordan (COLT 2020), example 2.2",
    )

    def _features(self, rng: np.random.Generator) -> FloatArray:
        return rng.dirichlet(np.full(self.dim, self.spread), (self.states, self.arms))

    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        return self._any(features, rng)

    def _any(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        measures = rng.dirichlet(np.full(self.states, 0.1), (self.length, self.dim))
        theta = rng.random((self.length, self.dim))
        moves = np.einsum("sad,hdx->hsax", features, measures)
        return moves[None], np.einsum("sad,hd->hsa", features, theta)[None]

    def _limits(self, states: int) -> tuple[FloatArray, BoolArray]:
        return np.full(states, 1 / states), np.zeros(states, dtype=np.bool_)


@parameters
class AgentMDP(LinearMDP):
    """Linear MDPs that depend on who the agent is: chances and rewards are linear in [(1 - c) phi(x, a); c kappa(m)].

    kappa(m) are points of the simplex in `kinds` k dimensions, which are told (`AgentFeatures`); `share` is c. So
    agents are drawn to different places, and what a place is worth differs with where one is drawn to.
    """

    kinds: Annotated[int, Field(ge=1)] = 3
    share: Annotated[float, Field(ge=0, le=1)] = 0.5

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="agent-mdp",
        family="planning",
        summary="linear MDPs of agents with features of their own, which are told",
        source="Dubey (2022), thesis, definition 9.2",
    )

    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        moves, pays = self._any(features, rng)
        kappa = np.array(self._kappa())
        measures = rng.dirichlet(np.full(self.states, 0.1), (self.length, self.kinds))
        theta = rng.random((self.length, self.kinds))
        drawn = np.einsum("mk,hkx->mhx", kappa, measures)[:, :, None, None]
        paid = np.einsum("mk,hk->mh", kappa, theta)[:, :, None, None]
        return (1 - self.share) * moves + self.share * drawn, (1 - self.share) * pays + self.share * paid

    def _kappa(self) -> tuple[tuple[float, ...], ...]:
        """The same for every seed: who agents are is no part of what is drawn."""
        rng = np.random.default_rng(self.clients)
        return tuple(tuple(row) for row in rng.dirichlet(np.full(self.kinds, 0.3), self.clients).tolist())

    def _facts(self) -> tuple[Fact, ...]:
        return (AgentFeatures(self._kappa()),)
