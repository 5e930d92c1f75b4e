"""The non-linear family: agents act on any differentiable model, made linear at a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.family import Family
from conformance.recomputing import Downloads, Indices, from_statistics
from fedbandits.algorithms.nonlinear.two_phases import TwoPhaseAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Candidates
from fedbandits.contract.problem import Problem


def _sigmoids(w: FloatArray, x: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """(..., d) -> f (...) and its gradients (..., p), of a network of m sigmoids."""
    d = x.shape[-1]
    W, c, v, b = w[: m * d].reshape(m, d), w[m * d : m * (d + 1)], w[m * (d + 1) : -1], w[-1]
    a = 1 / (1 + np.exp(-(x @ W.T + c)))
    q = v * a * (1 - a)
    outer = (q[..., None] * x[..., None, :]).reshape(*x.shape[:-1], m * d)
    return a @ v + b, np.concatenate([outer, q, a, np.ones((*a.shape[:-1], 1))], axis=-1)


def _told(heard: Downloads, agent: int, name: str, size: int) -> FloatArray:
    """Everybody's counts or sums, as an agent was told."""
    return heard[agent].arrays[name][0] if agent in heard and heard[agent].kind == "totals" else np.zeros(size)


_TALLY = ("count", "total")


def _unit(
    centre: FloatArray, unit: float, kernel: FloatArray, ridge: float, count: FloatArray, total: FloatArray
) -> float:
    """The most likely unit of deviations, given what was told, if it is larger than that of phase I."""
    seen = np.flatnonzero(count)
    if len(seen) == 0:
        return unit
    gaps = total[seen] / count[seen] - centre[seen]
    V = kernel[np.ix_(seen, seen)] + np.diag(ridge / count[seen])
    return max(unit, float(np.sqrt(gaps @ np.linalg.solve(V, gaps) / len(seen))))


def _several(agents: TwoPhaseAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """One regression over all that was told and is the agent's own, with the kernel that its networks make."""
    points = problem.need(Candidates, by=algorithm.about).table()
    models, p = agents.second.models, (agents.second.w.shape[1] - 2) // algorithm.members
    low, high = points.min(axis=0), points.max(axis=0)
    z = 2 * (points - low) / (high - low) - 1
    squares = ((z[:, None] - z) ** 2).sum(axis=2) / points.shape[1]
    known = {}
    for i in np.flatnonzero(agents.started):
        told, mean, deviation = agents.second.w[i, :-2].reshape(-1, p), *agents.second.w[i, -2:]
        f, g = zip(*(_sigmoids(w, z, algorithm.width) for w in told), strict=True)
        tangent = np.mean([one @ one.T / (one**2).sum(axis=1).mean() for one in g], axis=0)
        kernel = algorithm.share * tangent
        kernel += (1 - algorithm.share) * np.exp(-squares / (2 * algorithm.lengthscale**2))
        count, total = (
            getattr(models.fresh, name)[i] + getattr(models.handed, name)[i] + _told(heard, i, name, len(points))
            for name in _TALLY
        )
        seen = np.flatnonzero(count)
        V = kernel[np.ix_(seen, seen)] + np.diag(algorithm.ridge / count[seen])
        centre = mean + deviation * np.mean(f, axis=0)
        weights = np.linalg.solve(V, kernel[seen]).T
        unit = _unit(centre, deviation, kernel, algorithm.ridge, *(_told(heard, i, name, len(f[0])) for name in _TALLY))
        spread = np.diagonal(kernel - weights @ kernel[seen])
        known[i] = (
            centre + weights @ (total[seen] / count[seen] - centre[seen]) + unit * np.sqrt(algorithm.beta * spread)
        )

    def indices(arms: FloatArray) -> FloatArray:
        found = np.full(arms.shape[:2], np.nan)
        for i, values in known.items():
            found[i] = [values[(points == arm).all(axis=1)][0] for arm in arms[i]]
        return found

    return indices


def _at_the_point(agents: TwoPhaseAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Statistics of gradients at w_0 as they were told and own observations since, by matrices of the model's size."""
    points = problem.need(Candidates, by=algorithm.about).table()
    if algorithm.about.name == "fed-go-ucb-ensemble":
        return _several(agents, algorithm, problem, heard)
    second, m = agents.second, algorithm.width
    known: list[Any] = [None] * problem.agents
    for i in np.flatnonzero(agents.started):
        w = second.w[i].copy()
        f, g = _sigmoids(w, points, m)
        models = second.models
        count = models.fresh.count[i] + models.handed.count[i]
        total = models.fresh.total[i] + models.handed.total[i]
        V, r = algorithm.ridge * np.eye(len(w)) + (count[:, None] * g).T @ g, (total - count * f) @ g
        if i in heard and heard[i].kind == "pool":
            V, r = V + heard[i].arrays["gram"][0], r + heard[i].arrays["moment"][0]
        known[i] = (w, V, np.linalg.solve(V, r))

    def indices(arms: FloatArray) -> FloatArray:
        found = np.full(arms.shape[:2], np.nan)
        for i, held in enumerate(known):
            if held is not None:
                w, V, theta = held
                f, g = _sigmoids(w, arms[i], m)
                found[i] = f + g @ theta + np.sqrt(algorithm.beta * np.einsum("kp,pk->k", g, np.linalg.solve(V, g.T)))
        return found

    return indices


_SHORT = {"width": 3, "rounds": 5, "explore": 10}
FAMILY = Family(
    small={"hartmann6": {"clients": 6, "arms": 7}, "cosine8": {"clients": 6, "arms": 7}},
    talkative={
        "fed-go-ucb": _SHORT | {"threshold": 0.5},
        "fed-go-ucb-ensemble": _SHORT | {"threshold": 0.5, "members": 2},
        "one-go-ucb": _SHORT,
        "n-go-ucb": _SHORT | {"explore": 3},
    },
    silent={
        "fed-go-ucb-ensemble": {"explore": 10**6},
        "fed-go-ucb": {"explore": 10**6},
        "one-go-ucb": {"explore": 10**6},
    },
    choices=from_statistics({TwoPhaseAgents: _at_the_point}),
)
