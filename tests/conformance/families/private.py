"""The private family: agents act on sums with noise, which are read before they count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformance.family import Family
from conformance.recomputing import Downloads, Indices, bound_of, from_statistics, noise_of, optimistic, ridge
from fedbandits.channel.staged import BlindAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.problem import Problem
from fedbandits.privacy.gaussian import gaussian_mu


def _the_last_release(agents: BlindAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """K = V (V + q I)^-1 V and m = V (V + q I)^-1 b of the last pool that each agent was told; at random before."""
    n, d = problem.agents, problem.dim
    K, m, told = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n, dtype=np.bool_)
    # the square root of the triangle of ones, whose first column is the longest
    uploads = len(np.unique(np.round(np.geomspace(*_ends(algorithm, problem.horizon), 8))))
    f = np.array([math.comb(2 * k, k) / 4**k for k in range(uploads)])
    deviation = math.sqrt(1.5 * n) * (f @ f) / gaussian_mu(algorithm.epsilon, algorithm.delta)
    entry = math.sqrt(3) * deviation
    q, c = (entry / noise_of(problem)) ** 2, deviation * 2 * (math.sqrt(d) + math.sqrt(math.log(20)))
    for agent, message in heard.items():
        values, vectors = np.linalg.eigh(message.arrays["gram"][0] + c * np.eye(d))
        V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        share = V @ np.linalg.inv(V + q * np.eye(d))
        K[agent], m[agent], told[agent] = share @ V, share @ message.arrays["moment"][0], True
    V = ridge(algorithm, K)
    most = n * problem.horizon
    volume = d * math.log(1 + most / (d * q)) + d * math.log(1 + problem.horizon / (d * algorithm.ridge))
    tail = math.sqrt(2 * math.log(2 / algorithm.alpha))
    radius = noise_of(problem) * math.sqrt(2 * math.log(2 / algorithm.alpha) + volume)
    radius += (entry * (math.sqrt(d) + tail) + c * bound_of(problem)) / math.sqrt(q)
    radius += math.sqrt(algorithm.ridge) * bound_of(problem)
    width = algorithm.width if isinstance(algorithm.width, float) else algorithm.scale * radius
    indices = optimistic(np.linalg.solve(V, m[..., None])[..., 0], V, np.full(n, width))

    def scores(arms: FloatArray) -> FloatArray:
        return np.where(told[:, None], indices(arms), np.nan)

    return scores


def _ends(algorithm: Any, horizon: int) -> tuple[float, float]:
    last = algorithm.last * horizon
    return min(algorithm.first, last / 8), last


_NEW_NOISE = "noise is drawn for every release, so that two of them carry more than one"
_RELEASED = "what was released stays released: it is sent again as it is, and no longer held"
SIZES = {"clients": 6, "dim": 5, "arms": 7}
FAMILY = Family(
    small={"gap": SIZES},
    silent={"fedlinucb-private": {"threshold": math.inf}},
    confident=({"width": "theory"}, {"scale": 1.0}, {"width": 0.3}),
    choices=from_statistics({BlindAgents: _the_last_release}),
    harsh={"ridge": 1e-5},
    excused={"fedlinucb-private": {"additive": _NEW_NOISE, "never asked": _RELEASED}},
)
