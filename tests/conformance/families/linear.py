"""The linear family: agents act on ridge regressions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformance.family import Family
from conformance.recomputing import (
    Downloads,
    Indices,
    all_it_knows,
    from_statistics,
    optimistic,
    ridge,
    width_of,
)
from fedbandits.algorithms.linear.async_linucb_am import AsyncLinUCBAMAgents
from fedbandits.algorithms.linear.fedlinucb_async import FedLinUCBAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels


def _the_last_download(agents: FedLinUCBAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    n, d = agents.theta.shape
    gram, moment, count = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
    for agent, message in heard.items():
        gram[agent], moment[agent] = message.arrays["gram"][0], message.arrays["moment"][0]
        count[agent] = message.arrays["count"][0] if "count" in message.arrays else 0.0
    V = ridge(algorithm, gram)
    theta = np.linalg.solve(V, moment[..., None])[..., 0]
    return optimistic(theta, V, width_of(algorithm, problem, V, count))


def _both_blocks(agents: AsyncLinUCBAMAgents, algorithm: Any, problem: Problem, _: Downloads) -> Indices:
    """The shared block's estimate follows from the statistics and the local block's, which depends on the past."""

    def known(models: RidgeModels) -> tuple[FloatArray, FloatArray, FloatArray]:
        base, fresh = models.base, models.fresh
        V = ridge(algorithm, base.gram + fresh.gram)
        return V, base.moment + fresh.moment, width_of(algorithm, problem, V, base.count + fresh.count)

    V, moment, width = known(agents.common)
    moment = moment - np.einsum("ngl,nl->ng", agents.crossed, agents.local.theta)
    common = optimistic(np.linalg.solve(V, moment[..., None])[..., 0], V, width)
    V, _, width = known(agents.local)
    local = optimistic(agents.local.theta.copy(), V, width)
    g = agents.common.dim
    return lambda arms: common(arms[:, :, :g]) + local(arms[:, :, g:])


_AS_UPLOADED = "what the shared block's moment leaves out depends on the local block at the time of upload"
_ITERATES = ("common.theta", "local.theta")
SIZES = {"clients": 6, "dim": 5, "arms": 7}
FAMILY = Family(
    small={"linear": SIZES, "linear-shared": SIZES | {"shared": 3}},
    talkative={
        "dislinucb": {"threshold": 0.5},
        "async-linucb": {"gamma_up": 1.3, "gamma_down": 1.3},
        "async-linucb-am": {"gamma_up": 1.3, "gamma_down": 1.3},
    },
    silent={
        "dislinucb": {"threshold": math.inf},
        "async-linucb": {"gamma_up": math.inf},
        "async-linucb-am": {"gamma_up": math.inf},
        "fedlinucb-async": {"growth": math.inf},
    },
    confident=({"width": "theory"}, {"width": "loose"}, {"width": 0.3}),
    choices=from_statistics(
        {
            FedLinUCBAgents: _the_last_download,
            AsyncLinUCBAMAgents: _both_blocks,
            OptimisticAgents: all_it_knows,
        }
    ),
    harsh={"ridge": 1e-5, "alternations": 1},
    excused={
        "async-linucb-am": {
            "additive": _AS_UPLOADED,
            "never asked": _AS_UPLOADED,
        },
    },
    path_dependent={"async-linucb-am": _ITERATES},
)
