"""Kernels: agents act on exact processes, on dictionaries or on features."""

from __future__ import annotations

import math
from typing import Any

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, all_it_knows, from_statistics
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.problem import Problem
from fedbandits.models.optimistic import OptimisticAgents


def _on_features(agents: OptimisticAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Ridge regression over everything that was settled and everything since, in the space of features."""
    indices = all_it_knows(agents, algorithm, posed_by(algorithm, problem), heard)
    return lambda arms: indices(agents.features.of(None, arms))


FAMILY = Family(
    small={"cosine": SIZES},
    talkative={"dis-kernel-features": {"threshold": 0.5, "count": 10}},
    silent={"dis-kernel-features": {"threshold": math.inf, "count": 10}},
    confident=({"width": "theory"}, {"width": 0.3}),
    choices=from_statistics({OptimisticAgents: _on_features}),
    harsh={"ridge": 1e-5},
)
