"""Kernels: agents act on exact processes, on dictionaries or on features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, all_it_knows, from_statistics, noise_of, ridge
from fedbandits.algorithms.kernel.dictionary_agents import DictionaryAgents
from fedbandits.algorithms.kernel.graph.agents import GraphKernelAgents
from fedbandits.algorithms.kernel.graph.dist_ucb_kernel import CentredAgents
from fedbandits.algorithms.kernel.pool_agents import PoolAgents
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.models.optimistic import OptimisticAgents


def _on_features(agents: OptimisticAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Ridge regression over everything that was settled and everything since, in the space of features."""
    indices = all_it_knows(agents, algorithm, posed_by(algorithm, problem), heard)
    return lambda arms: indices(agents.features.of(None, arms))


def _on_the_pool(agents: PoolAgents, algorithm: Any, problem: Problem, _: Downloads) -> Indices:
    """Kernel regression by one solve over the pool as far as each agent was told, and its own observations since."""
    models, kernel, lambda_ = agents.models, agents.models.kernel, algorithm.ridge
    held = []
    for i in range(problem.agents):
        known, made = models.known[i], models.made[i]
        x = np.concatenate([models.points[:known], models.own_points[i, :made]])
        y = np.concatenate([models.rewards[:known], models.own_rewards[i, :made]])
        inverse = np.linalg.inv(kernel.matrix(x, x) + lambda_ * np.eye(len(x)))
        width = algorithm.width
        if width == "theory":
            volume = -np.linalg.slogdet(lambda_ * inverse)[1]
            width = noise_of(problem) * math.sqrt(2 * math.log(1 / algorithm.delta) + volume) + math.sqrt(lambda_)
        held.append((x, inverse, inverse @ y, width))

    def indices(arms: FloatArray) -> FloatArray:
        rows = []
        for (x, inverse, weights, width), shown in zip(held, arms, strict=True):
            k = kernel.matrix(x, shown)
            variance = kernel.diagonal(shown) - np.einsum("tk,tk->k", k, inverse @ k)
            rows.append(k.T @ weights + width * np.sqrt(variance / lambda_))
        return np.array(rows)

    return indices


def _on_the_dictionary(agents: DictionaryAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Regression in terms of the dictionary, on what each agent was told and its own raw data since."""
    kernel, lambda_, data = agents.models.kernel, algorithm.ridge, agents.data
    held = []
    for i in range(problem.agents):
        told = heard[i].arrays if i in heard else None
        S = np.zeros((0, problem.dim)) if told is None else told["dictionary"][0]
        root = np.linalg.cholesky(kernel.matrix(S, S) + 1e-10 * np.eye(len(S)))
        A, b = lambda_ * np.eye(len(S)), np.zeros(len(S))
        if told is not None:
            A, b = A + told["gram"][0], b + told["moment"][0]
        since = slice(int(agents.inside[i]), int(data.count[i]))
        z = np.linalg.solve(root, kernel.matrix(S, data.arms[i, :, since].T))
        A, b = A + z @ z.T, b + z @ data.rewards[i, since]
        count = (0.0 if told is None else told["count"][0]) + z.shape[1]
        width = algorithm.width
        if width == "theory":
            missed = count / lambda_ - np.trace(A / lambda_ - np.eye(len(S)))
            spread = 2 * math.log(problem.agents * problem.horizon / algorithm.delta)
            spread += np.linalg.slogdet(A / lambda_)[1] + missed
            width = (1 + math.sqrt(max(missed, 0))) * math.sqrt(lambda_) + noise_of(problem) * math.sqrt(spread)
        held.append((S, root, np.linalg.inv(A), np.linalg.solve(A, b), width))

    def indices(arms: FloatArray) -> FloatArray:
        rows = []
        for (S, root, inverse, theta, width), shown in zip(held, arms, strict=True):
            z = np.linalg.solve(root, kernel.matrix(S, shown))
            unseen = np.maximum(kernel.diagonal(shown) - (z**2).sum(axis=0), 0) / lambda_
            rows.append(z.T @ theta + width * np.sqrt(unseen + np.einsum("sk,sk->k", z, inverse @ z)))
        return np.array(rows)

    return indices


def _on_processes(agents: GraphKernelAgents, algorithm: Any, problem: Problem, _: Downloads) -> Indices:
    """Kernel regression by one solve over all that an agent holds; or the arm nearest to what it follows."""
    agents.state()  # own observations that nobody has answered are taken in
    shared, lambda_ = agents.processes, algorithm.ridge
    kernel = shared.model.kernel
    found = []
    for agent in range(problem.agents):
        process = shared.processes[shared.group[agent]]
        place = int(np.flatnonzero(process.reach == agent)[0])
        if process.summed:  # features are the arms themselves, and there is one function
            V, b = ridge(algorithm, process.gram[None])[0], process.moment
            logdet = np.linalg.slogdet(V / lambda_)[1]
            found.append((lambda x, V=V, b=b: (x @ np.linalg.solve(V, b), x @ np.linalg.solve(V, x.T)), logdet))
            continue
        held, sources = process.held
        K = process.table[np.ix_(sources, sources)] * kernel.matrix(held.points, held.points)
        V = K + lambda_ * np.eye(len(K))

        def posterior(x: FloatArray, V=V, held=held, weights=process.table[sources, place]) -> Any:
            k = weights[:, None] * kernel.matrix(held.points, x)
            return k.T @ np.linalg.solve(V, held.rewards), (np.eye(len(x)) - k.T @ np.linalg.solve(V, k)) / lambda_

        found.append((posterior, np.linalg.slogdet(V / lambda_)[1]))

    def indices(arms: FloatArray) -> FloatArray:
        rows = []
        for agent, (posterior, logdet) in enumerate(found):
            width = algorithm.width
            if width == "theory":
                width = noise_of(problem) * math.sqrt(2 * math.log(problem.agents / algorithm.delta) + logdet)
                width += math.sqrt(lambda_)
            mean, variance = posterior(arms[agent])
            rows.append(mean + width * np.sqrt(np.diag(variance)))
            if followed is not None and followed[1][agent] >= 0:
                rows[-1] = -((arms[agent] - followed[0][agent]) ** 2).sum(axis=1)
        return np.array(rows)

    followed = (agents.copied.copy(), agents.copied_born.copy()) if isinstance(agents, CentredAgents) else None
    return indices


FAMILY = Family(
    small={"cosine": SIZES, "heterogeneous-rbf": SIZES, "heterogeneous-linear": SIZES},
    talkative={"dis-kernel-features": {"threshold": 0.5, "count": 10}, "dis-kernel-ucb": {"threshold": 1.0}},
    silent={
        "approx-dis-kernel-ucb": {"threshold": math.inf},
        "dis-kernel-features": {"threshold": math.inf, "count": 10},
        "dis-kernel-ucb": {"threshold": math.inf},
    },
    confident=({"width": "theory"}, {"width": 0.3}),
    choices=from_statistics(
        {
            OptimisticAgents: _on_features,
            PoolAgents: _on_the_pool,
            DictionaryAgents: _on_the_dictionary,
            GraphKernelAgents: _on_processes,
        }
    ),
    harsh={"ridge": 1e-5},
)
