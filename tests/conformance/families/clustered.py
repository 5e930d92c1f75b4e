"""The clustered family: linear agents, of whom only some are alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, all_it_knows, from_statistics, width_of
from fedbandits.algorithms.clustered.agents import ClusterAgents
from fedbandits.algorithms.clustered.fclub_dc import FCLUBDC
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.models.optimistic import OptimisticAgents


def _width_of(algorithm: Any, problem: Problem, V: FloatArray, count: FloatArray) -> FloatArray:
    if isinstance(algorithm, FCLUBDC) and algorithm.width == "published":
        d = V.shape[1]
        return 0.5 * np.sqrt(2 * np.log(2 / 1.5) + d * np.log(3 + count / d))
    return width_of(algorithm, problem, V, count)


def _all_it_knows(agents: OptimisticAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    return all_it_knows(agents, algorithm, problem, heard, _width_of)


def _once_it_has_explored(agents: ClusterAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    known = _all_it_knows(agents, algorithm, problem, heard)
    exploring = agents.turns < getattr(algorithm, "explore", 0)
    return lambda arms: np.where(exploring[:, None], np.nan, known(arms))


_EXPLORING = {"threshold": 0.5, "explore": 4}
_MUTE = {"threshold": math.inf, "explore": 0}
FAMILY = Family(
    small={"clustered-linear": SIZES | {"pool": 40, "clusters": 2}},
    talkative={
        "oracle-clusters": {"threshold": 0.5},
        "hetofedbandit": _EXPLORING,
        "hetofedbandit-pq": _EXPLORING,
        "hetofedbandit-async": _EXPLORING,
        "hetofedbandit-dr": {"threshold": 0.5},
        "hetofedbandit-e": {"threshold": 0.5},
    },
    silent={
        "oracle-clusters": {"threshold": math.inf},
        "hetofedbandit": _MUTE,
        "hetofedbandit-pq": _MUTE,
        "hetofedbandit-async": _MUTE,
        "hetofedbandit-dr": {"threshold": math.inf},
        "hetofedbandit-e": {"threshold": math.inf},
    },
    confident=({"width": "theory"}, {"width": "loose"}, {"width": 0.3}),
    choices=from_statistics({ClusterAgents: _once_it_has_explored, OptimisticAgents: _all_it_knows}),
    harsh={"ridge": 1e-5},
)
