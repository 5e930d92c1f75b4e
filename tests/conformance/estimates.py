"""What an agent should act on, computed with numpy from its statistics and from what it was told, and nothing else.

A family whose agents keep other statistics adds a function to `ACTING`; without one, the suite refuses the algorithm
rather than skip it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedbandits.algorithms.clustered.agents import ClusterAgents
from fedbandits.algorithms.clustered.fclub_dc import FCLUBDC
from fedbandits.algorithms.linear.agents import LinUCBAgents
from fedbandits.algorithms.linear.async_linucb_am import AsyncLinUCBAMAgents
from fedbandits.algorithms.linear.fedlinucb_async import FedLinUCBAgents
from fedbandits.arrays import FloatArray
from fedbandits.linalg.ridge import RidgeModels
from fedbandits.protocol import Message, Problem

Downloads = dict[int, Message]
"""For each agent the last message it was sent by the server, as a batch of one."""
Indices = Callable[[FloatArray], FloatArray]
"""Arms (n, K, d) -> (n, K): the index that every agent should give every arm; NaN for one that plays at random."""


def width_of(algorithm: Any, problem: Problem, V: FloatArray, count: FloatArray) -> FloatArray:
    """(n,) the width, by its formula."""
    d = V.shape[1]
    if isinstance(algorithm, FCLUBDC) and isinstance(algorithm.width, str):
        return 0.5 * np.sqrt(2 * np.log(2 / 1.5) + d * np.log(3 + count / d))
    if algorithm.width == "theory":
        volume = np.linalg.slogdet(V)[1] - d * np.log(algorithm.ridge)
    elif algorithm.width == "loose":
        volume = d * np.log(1 + count / (d * algorithm.ridge))
    else:
        return np.full(len(V), algorithm.width)
    spread = problem.noise * np.sqrt(2 * np.log(1 / algorithm.delta) + volume)
    return spread + np.sqrt(algorithm.ridge) * problem.bound


def optimistic(theta: FloatArray, V: FloatArray, width: FloatArray) -> Indices:
    """<theta, x> + width sqrt(x^T V^-1 x) by a linear solve."""

    def indices(arms: FloatArray) -> FloatArray:
        solved = np.linalg.solve(V, arms.swapaxes(1, 2))
        norms = np.sqrt(np.einsum("nkd,ndk->nk", arms, solved))
        return np.einsum("nkd,nd->nk", arms, theta) + width[:, None] * norms

    return indices


def ridge(algorithm: Any, gram: FloatArray) -> FloatArray:
    """gram + lambda I."""
    return gram + algorithm.ridge * np.eye(gram.shape[1])


def _all_it_knows(agents: LinUCBAgents, algorithm: Any, problem: Problem, _: Downloads) -> Indices:
    base, fresh = agents.models.base, agents.models.fresh
    V = ridge(algorithm, base.gram + fresh.gram)
    theta = np.linalg.solve(V, (base.moment + fresh.moment)[..., None])[..., 0]
    return optimistic(theta, V, width_of(algorithm, problem, V, base.count + fresh.count))


def _all_it_knows_once_it_has_explored(
    agents: ClusterAgents, algorithm: Any, problem: Problem, heard: Downloads
) -> Indices:
    known = _all_it_knows(agents, algorithm, problem, heard)
    exploring = agents.turns < getattr(algorithm, "explore", 0)
    return lambda arms: np.where(exploring[:, None], np.nan, known(arms))


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


ACTING: dict[type, Callable[..., Indices]] = {
    ClusterAgents: _all_it_knows_once_it_has_explored,
    LinUCBAgents: _all_it_knows,
    FedLinUCBAgents: _the_last_download,
    AsyncLinUCBAMAgents: _both_blocks,
}


def acting_on(agents: Any, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """The index every agent should give every arm right now."""
    for kind, indices in ACTING.items():
        if isinstance(agents, kind):
            return indices(agents, algorithm, problem, heard)
    raise NotImplementedError(
        f"add a recomputation of what {type(agents).__name__} acts on to conformance/estimates.py"
    )
