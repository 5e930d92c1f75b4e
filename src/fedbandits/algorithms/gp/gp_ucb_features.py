"""GP-UCB on quadrature features: every agent alone, at the same cost in every turn."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.gp.parameters import FeatureParameters
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.optimistic import OptimisticAgents


@parameters
class GPUCBFeatures(FeatureParameters):
    """GP-UCB by every agent alone, on p quadrature features instead of all its observations: argmax <theta, phi(x)> +
    width ||phi(x)||_{V^-1}, ridge regression in the space of features (`models.features.quadrature`).

    p follows from `error`, the largest error of the kernel in the box where arms lie: 77 features for 1/1000 in the
    thesis' world. The thesis takes 6 log T nodes in each coordinate, 3,459 features there.

    Guarantee: that of linear bandits in p dimensions for the nearest linear function, and B `error` beside it at every
    turn: regret O(p sqrt(T) log T + B error (T + T sqrt(p log T))) for each agent (theory width).
    """

    about: ClassVar[About] = About(
        name="gp-ucb-features",
        family="gp",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(p sqrt(T) log T) per agent, and B e T sqrt(p log T) for features of error e",
        source="Mutny & Krause, NeurIPS 2018; Dubey (2022), thesis, chapter 7, without noise",
        environment="rkhs-mixture",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents that never call."""
        return self.optimists(problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""
