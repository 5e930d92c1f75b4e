"""N-ONS-GLM: online Newton steps by every agent alone."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.generalized.agents import NewtonAgents
from fedbandits.algorithms.generalized.parameters import Constants, GLMParameters
from fedbandits.algorithms.generalized.widths import StepsPart, online_steps
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams


@parameters
class NOnsGLM(GLMParameters):
    """GLOC with online Newton steps (Jun, Bhargava, Nowak & Willett, NeurIPS 2017) by every agent alone.

    As FedGLB-UCB between global updates, with V = lambda I + sum x x^T and width^2 = lambda S^2 + 1 + 4B/c +
    (8R^2/c^2) log((2/delta) sqrt(1 + 2B/c + 4R^4/(c^4 delta^2))) + centre^T b - ||z||^2, B the bound on the steps'
    regret.

    Guarantee: regret O(d sqrt(T) log T) for each agent (theory width).
    """

    about: ClassVar[About] = About(
        name="n-ons-glm",
        family="generalized",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(d sqrt(T) log T) per agent (theory width)",
        source="Jun, Bhargava, Nowak & Willett, NeurIPS 2017",
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OnlineAgents:
        """n agents that never call."""
        return OnlineAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


class OnlineAgents(NewtonAgents):
    """Online Newton steps with the ridge and width of an agent alone."""

    @staticmethod
    def _ridge(s: Constants) -> float:
        return s.ridge

    @staticmethod
    def _first_regret(s: Constants) -> float:
        return 2 * s.c * s.ridge * s.S**2

    @staticmethod
    def _part(s: Constants) -> StepsPart:
        return online_steps(s)
