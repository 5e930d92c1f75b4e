"""The neural family: agents act on networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, from_statistics, optimistic
from fedbandits.algorithms.neural.network_agents import NetworkAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem


def _layer(inner: FloatArray, arms: FloatArray) -> FloatArray:
    """(..., d) -> (..., m + 1) the last layer with its constant, for W (m, d + 1) as it lies in a message."""
    W = inner.reshape(-1, arms.shape[-1] + 1)
    z = np.maximum(arms @ W[:, :-1].T + W[:, -1], 0)
    return np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1)


def _the_last_model(agents: NetworkAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Everybody's statistics as they were told, and own raw data since, at the layer that was told with them."""
    n, q = problem.agents, algorithm.width + 1
    inner, V, centre = [], np.zeros((n, q, q)), np.zeros((n, q))
    for i in range(n):
        told, moment, mean, deviation = np.zeros((q, q)), np.zeros(q), 0.0, 1.0
        own = agents.features.theta[i, :-q]
        if i in heard:
            assert heard[i].kind == "model"
            arrays = heard[i].arrays
            own, told, moment = arrays["inner"][0], arrays["gram"][0], arrays["moment"][0]
            mean, deviation = float(arrays["mean"][0]), float(arrays["deviation"][0])
        inner.append(own)
        since = slice(int(agents.inside[i]), int(agents.data.count[i]))
        z = _layer(own, agents.data.arms[i, :, since].T)
        y = (agents.data.rewards[i, since] - mean) / deviation
        V[i] = told + z.T @ z + algorithm.ridge * np.eye(q)
        centre[i] = np.linalg.solve(V[i], moment + z.T @ y)
    indices = optimistic(centre, V, np.full(n, algorithm.nu * np.sqrt(algorithm.ridge)))
    return lambda arms: indices(np.stack([_layer(inner[i], arms[i]) for i in range(n)]))


FAMILY = Family(
    small={"cosine": SIZES, "square": SIZES},
    talkative={
        "neural-linear": {"width": 8, "steps": 3},
        "neural-ucb": {"width": 4, "steps": 3},
        "neural-ts": {"width": 4, "steps": 3},
    },
    confident=({"nu": 2.0}, {"nu": 0.3}),
    choices=from_statistics({NetworkAgents: _the_last_model}),
    harsh={"ridge": 1e-5, "until": 100},
    affordable={"neural-linear": 10_000, "neural-ucb": 10_000, "neural-ts": 10_000},
)
