"""The private family: agents act on sums with noise, which are read before they count."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.family import Family
from conformance.recomputing import Downloads, Indices, bound_of, from_statistics, noise_of, optimistic, ridge
from fedbandits.algorithms.private.network_agents import NetworkAgents
from fedbandits.channel.staged import BlindAgents
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Place
from fedbandits.contract.problem import Problem
from fedbandits.graphs.leaders import clique_of
from fedbandits.privacy.gaussian import gaussian_mu


def _the_last_release(agents: BlindAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """The last pool that each agent was told."""
    n, d = problem.agents, problem.dim
    gram, moment, told = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n, dtype=np.bool_)
    for agent, message in heard.items():
        gram[agent], moment[agent], told[agent] = message.arrays["gram"][0], message.arrays["moment"][0], True
    return _read(algorithm, problem, np.full(n, n), gram, moment, told)


def _the_last_of_everybody(agents: NetworkAgents, algorithm: Any, problem: Problem, _: Downloads) -> Indices:
    """The last release of itself and of each other member of the clique, in the phase of an agent's next turn."""
    n, d = problem.agents, problem.dim
    place, own = problem.get(Place), agents.sums.part.released
    assert place is not None
    cliques, phases = clique_of(place.graph, place.hops), place.hops
    gram, moment, told = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n, dtype=np.bool_)
    for agent in range(n):
        phase = int(agents.protocol.uses[agent].sum()) % phases
        table = agents.heard.table(phase)
        rows = slice(table.starts[agent], table.starts[agent + 1])
        gram[agent] = own.gram[agent * phases + phase] + table.kept["gram"][rows].sum(axis=0)
        moment[agent] = own.moment[agent * phases + phase] + table.kept["moment"][rows].sum(axis=0)
        told[agent] = gram[agent].any()
    shortened = replace(problem, horizon=math.ceil(problem.horizon / phases))
    return _read(algorithm, shortened, np.bincount(cliques)[cliques], gram, moment, told, phases)


def _read(
    algorithm: Any,
    problem: Problem,
    members: IntArray,
    gram: FloatArray,
    moment: FloatArray,
    told: BoolArray,
    phases: int = 1,
) -> Indices:
    """K = V (V + q I)^-1 V and m = V (V + q I)^-1 b of noisy sums over so many `members`; at random where nobody has
    `told` any. In so many `phases`, all of whose releases have to keep to their bounds.
    """
    n, d = len(members), problem.dim
    K, m, width = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
    # the square root of the triangle of ones, whose first column is the longest
    uploads = len(np.unique(np.round(np.geomspace(*_ends(algorithm, problem.horizon), 8))))
    f = np.array([math.comb(2 * k, k) / 4**k for k in range(uploads)])
    for agent in range(n):
        deviation = math.sqrt(1.5 * members[agent]) * (f @ f) / gaussian_mu(algorithm.epsilon, algorithm.delta)
        entry = math.sqrt(3) * deviation
        q, c = (entry / noise_of(problem)) ** 2, deviation * 2 * (math.sqrt(d) + math.sqrt(math.log(20)))
        if told[agent]:
            values, vectors = np.linalg.eigh(gram[agent] + c * np.eye(d))
            V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
            share = V @ np.linalg.inv(V + q * np.eye(d))
            K[agent], m[agent] = share @ V, share @ moment[agent]
        most = members[agent] * problem.horizon
        volume = d * math.log(1 + most / (d * q)) + d * math.log(1 + problem.horizon / (d * algorithm.ridge))
        tail = math.sqrt(2 * math.log(2 * uploads * phases / algorithm.alpha))
        radius = noise_of(problem) * math.sqrt(2 * math.log(2 / algorithm.alpha) + volume)
        radius += (entry * (math.sqrt(d) + tail) + c * bound_of(problem)) / math.sqrt(q)
        radius += math.sqrt(algorithm.ridge) * bound_of(problem)
        width[agent] = algorithm.width if isinstance(algorithm.width, float) else algorithm.scale * radius
    V = ridge(algorithm, K)
    indices = optimistic(np.linalg.solve(V, m[..., None])[..., 0], V, width)

    def scores(arms: FloatArray) -> FloatArray:
        return np.where(told[:, None], indices(arms), np.nan)

    return scores


def _ends(algorithm: Any, horizon: int) -> tuple[float, float]:
    last = algorithm.last * horizon
    return max(1.0, min(algorithm.first, last / 8)), last


_NEW_NOISE = "noise is drawn for every release, so that two of them carry more than one"
_RELEASED = "what was released stays released: it is sent again as it is, and no longer held"
SIZES = {"clients": 6, "dim": 5, "arms": 7}
FAMILY = Family(
    small={"gap": SIZES},
    silent={"fedlinucb-private": {"threshold": math.inf}},
    confident=({"width": "theory"}, {"scale": 1.0}, {"width": 0.3}),
    choices=from_statistics({BlindAgents: _the_last_release, NetworkAgents: _the_last_of_everybody}),
    harsh={"ridge": 1e-5},
    excused={"fedlinucb-private": {"additive": _NEW_NOISE, "never asked": _RELEASED}},
)
