"""FedLSVI for agents whose problems differ by what is known of them."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.planning.fedlsvi_dense import FedLSVIDense
from fedbandits.algorithms.planning.messages import COLLECT, NEWS, TRANSITIONS
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import AgentFeatures, Embedding
from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.features import Appended
from fedbandits.models.limits import longest


@parameters
class FedLSVIHeterogeneous(FedLSVIDense):
    """FedLSVI for large heterogeneity (Dubey 2022, algorithm 20): DENSE on [phi(x, a); kappa(m)].

    Chances and rewards of agent m are linear in phi~ = [phi; kappa(m)], kappa being told (`AgentFeatures`); phi~ is
    scaled so that its norm is at most 1. A transition is sent with phi~ of whoever made it, so that everybody values
    the state it led to as that agent's: V(n, x') for a transition of agent n. d becomes d + k in the bonus and in the
    thresholds.

    For small deviations without features use `fedlsvi-dense` with `deviation`.

    Guarantee: group regret O((d + k) H^2 (M (d + G) sqrt(S) + sqrt((d + G) M T))) up to logarithms (theorem 9.4), G
    being the rank of the Gram matrix of kappa, everybody in step, at the theory's bonus.
    """

    about: ClassVar[About] = About(
        name="fedlsvi-heterogeneous",
        family="planning",
        topology="star",
        talks="everybody, after an episode in which one agent's log-determinant has grown by S over the episodes since",
        says=(COLLECT, TRANSITIONS, NEWS),
        guarantee="group regret O((d + k) H^2 (M (d + G) sqrt(S) + sqrt((d + G) M T))) up to logarithms, theory bonus",
        source="Dubey (2022), thesis, section 9.5, algorithm 20",
        environment="agent-mdp",
    )

    def size(self, problem: Problem) -> int:
        """d + k."""
        return problem.dim + int(self._kappa(problem).shape[1])

    def features(self, problem: Problem, rng: Streams) -> Appended:
        """[phi; kappa(m)], scaled."""
        kappa = self._kappa(problem)
        return Appended(problem.dim, kappa[rng.identities], _scale(problem, kappa))

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:
        """What bounds of messages may rest on: how long features are."""
        return (*super().assumes(problem), Embedding(self.size(problem), 1.0))

    def _kappa(self, problem: Problem) -> FloatArray:
        """(M, k) what is known of every agent."""
        kappa = np.array(problem.need(AgentFeatures, by=self.about).features)
        if len(kappa) != problem.agents:
            raise ConfigError(f"agent_features: {len(kappa)} rows are told for {problem.agents} agents")
        return kappa


def _scale(problem: Problem, kappa: FloatArray) -> float:
    """The largest norm of [phi; kappa(m)]."""
    return math.hypot(longest(problem.without(Embedding)), float(np.linalg.norm(kappa, axis=1).max()))
