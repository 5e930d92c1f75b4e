"""A star that pools sums of features, on which noise may lie: what federated and private processes are composed of."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.gp.parameters import FeatureParameters
from fedbandits.algorithms.private.pooled import Pooled, PooledAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance
from fedbandits.models.features import Features
from fedbandits.models.sharing import COLLECT, FRESH, POOL, statistics

POOLED_FEATURES = Utterance(FRESH.kind, "up", statistics("p", adds="increment", pooled=True))
"""An agent's own observations since its last upload, in the space of features, to a server that adds them up."""
FEATURE_POOL = Utterance(POOL.kind, "down", statistics("p", adds="total"))
"""Everything the server knows, in the space of features."""


@parameters
class PooledFeatures(FeatureParameters, Pooled):
    """Agents act optimistically on everybody's sums over p features, and call when a stage says so; see `Pooled`.

    Features follow from what all agents know of the kernel, so that their sums are of the same thing.
    """

    about: ClassVar[About] = About(
        name="pooled-features",
        family="gp",
        topology="star",
        talks="everybody, by a schedule",
        says=(COLLECT, POOLED_FEATURES, FEATURE_POOL),
        calls="scheduled",
        guarantee="regret O(p sqrt(nT) log(nT)), and what features are off by, if all talk at every turn, theory width",
        source="Dubey (2022), thesis, chapters 6 and 7, without noise",
        environment="rkhs-mixture",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> PooledAgents:
        """n agents that act on features."""
        return super().agents(problem.knowing(*self.assumes(problem)), n, rng)

    def seen(self, problem: Problem) -> Features:
        """The features."""
        return self.features(problem)[0]

    def size(self, problem: Problem) -> int:
        """p."""
        return self.seen(problem).size

    def observed(self, problem: Problem, count: FloatArray) -> FloatArray:
        """As many as there may ever be: counts need not travel."""
        return np.full(len(count), float(problem.agents * problem.horizon))
