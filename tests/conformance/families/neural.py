"""The neural family: agents act on networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, from_statistics, optimistic
from fedbandits.algorithms.neural.fn_agents import FNAgents
from fedbandits.algorithms.neural.network_agents import NetworkAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.models.networks import gradients, outputs


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


def _both_indices(agents: FNAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Everybody's statistics as they were told and own raw data since, at theta_0; and the network that was told."""
    network, n = algorithm.network(problem), problem.agents
    theta_0, p = agents.tangent.theta, network.parameters
    gram, moment, inverses = np.zeros((n, p, p)), np.zeros((n, p)), np.zeros((n, n, p, p))
    average = theta_0.copy()
    for i in range(n):
        inverses[i] = np.eye(p) / algorithm.ridge
        if i in heard:
            told = heard[i].arrays
            gram[i], moment[i], average[i] = told["gram"][0], told["moment"][0], told["network"][0]
            inverses[i] = told["inverse"][0] if algorithm.less else told["inverses"][0]
        end = int(agents.data.count[i])
        since = slice(end - int(agents.pool.since[i]), end)
        x = agents.data.arms[i, :, since].T
        if len(x):
            phi = gradients(network, theta_0, np.array([i]), x[None])[0]
            gram[i], moment[i] = gram[i] + phi.T @ phi, moment[i] + phi.T @ agents.data.rewards[i, since]
    V = gram + algorithm.ridge * np.eye(p)
    root = np.sqrt(algorithm.ridge)
    pooled = optimistic(np.linalg.solve(V, moment[..., None])[..., 0], V, np.full(n, algorithm.nu_all * root))
    turn = agents.data.count
    alpha = np.where(turn > 3, np.clip((turn - 3) / algorithm.ramp, 0, 1), 0.0)[:, None]

    def indices(arms: FloatArray) -> FloatArray:
        everybody = np.arange(n)
        phi = gradients(network, theta_0, everybody, arms)
        doubts = np.sqrt(np.einsum("nkp,njpq,nkq->njk", phi, inverses, phi)).mean(axis=1)
        own = outputs(network, average, everybody, arms) + algorithm.nu_own * root * doubts
        return (1 - alpha) * pooled(phi) + alpha * own

    return indices


FAMILY = Family(
    small={"cosine": SIZES, "square": SIZES},
    talkative={
        "neural-linear": {"width": 8, "steps": 3},
        "fn-ucb": {"width": 4, "steps": 3, "ramp": 20},
        "fn-ucb-less": {"width": 4, "steps": 3, "ramp": 20},
        "neural-ucb": {"width": 4, "steps": 3},
        "neural-ts": {"width": 4, "steps": 3},
    },
    silent={"fn-ucb": {"threshold": math.inf}, "fn-ucb-less": {"threshold": math.inf}},
    choices=from_statistics({NetworkAgents: _the_last_model, FNAgents: _both_indices}),
    harsh={"ridge": 1e-5, "until": 100},
    affordable={
        "neural-linear": 10_000,
        "fn-ucb": 2_000,
        "fn-ucb-less": 2_000,
        "neural-ucb": 10_000,
        "neural-ts": 10_000,
    },
)
