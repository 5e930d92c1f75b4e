"""What an agent should act on, computed with numpy from its statistics and from what it was told, and nothing else.

A family whose agents keep other statistics adds a function to `ACTING`; without one, the suite refuses the algorithm
rather than skip it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from fedbandits.algorithms.clustered.agents import ClusterAgents
from fedbandits.algorithms.clustered.fclub_dc import FCLUBDC
from fedbandits.algorithms.generalized.agents import CentredAgents, NewtonAgents
from fedbandits.algorithms.generalized.fedglb_ucb import FedGLBUCB1
from fedbandits.algorithms.generalized.fedglb_ucb_3 import OnlineNewtonAgents
from fedbandits.algorithms.linear.agents import LinUCBAgents
from fedbandits.algorithms.linear.async_linucb_am import AsyncLinUCBAMAgents
from fedbandits.algorithms.linear.fedlinucb_async import FedLinUCBAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.models.ridge import RidgeModels

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


def _slopes(problem: Problem) -> tuple[float, float]:
    """c and k of the logistic link, which the suite's generalized linear problems have."""
    assert problem.link == "logistic"
    far = expit(problem.bound * problem.arm_norm)
    return far * (1 - far), 0.25


def _lemma_9(algorithm: Any, problem: Problem, m: float) -> float:
    """W, the width around the minimiser over m observations."""
    c, k = _slopes(problem)
    prior = np.sqrt(algorithm.ridge / c) * problem.bound
    if m == 0:
        return prior
    inexact = np.sqrt(2 * k / (algorithm.ridge * c) + 2 / (m * c))
    volume = problem.dim * np.log(1 + m * c / (problem.dim * algorithm.ridge))
    return inexact + problem.noise / c * np.sqrt(volume + 2 * np.log(1 / algorithm.delta)) + prior


def _beta_local(algorithm: Any, problem: Problem, regret: float) -> float:
    c, R, delta = _slopes(problem)[0], problem.noise, algorithm.delta
    root = np.sqrt(4 + 8 * regret / c + 64 * R**4 / (4 * c**4 * delta**2))
    return 1 + 4 * regret / c + 8 * (R / c) ** 2 * np.log(problem.agents / delta * root)


def _beta_global(algorithm: Any, problem: Problem, m: float, gram: FloatArray, theta: FloatArray) -> float:
    c, R, S = _slopes(problem)[0], problem.noise, problem.bound
    L = np.log(1 / algorithm.delta) + np.linalg.slogdet(np.eye(len(gram)) + gram)[1] / 2
    B = 1 / m + algorithm.ridge / 2 * S**2
    return 8 * (R / c) ** 2 * L + B + 4 * R / c * np.sqrt(2 * L) * (np.linalg.norm(theta) + S + np.sqrt(B))


def _projected(A: FloatArray, point: FloatArray, radius: float) -> FloatArray:
    """The point of the ball nearest in the norm of A, by bracketing the multiplier."""
    if np.linalg.norm(point) <= radius:
        return point
    at = lambda shift: np.linalg.solve(A + shift * np.eye(len(A)), A @ point)  # noqa: E731
    most = np.linalg.norm(A @ point) / radius
    return at(brentq(lambda shift: np.linalg.norm(at(shift)) - radius, 0.0, most, xtol=1e-15, rtol=1e-14))


def _own_since(agents: Any, agent: int) -> tuple[FloatArray, FloatArray]:
    """The raw observations of an agent since it was last told anything."""
    end = int(agents.data.count[agent])
    own = slice(end - int(agents.models.fresh.count[agent]), end)
    return agents.data.arms[agent, :, own].T, agents.data.rewards[agent, own]


def _steps_after_the_download(agents: NewtonAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """Online Newton steps on own raw data, replayed from the last global update."""
    (c, _), d, S = _slopes(problem), problem.dim, problem.bound
    n = problem.agents
    V, centre, width = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
    for i in range(n):
        A, b, theta = algorithm.ridge / c * np.eye(d), np.zeros(d), np.zeros(d)
        squares, beta, regret = 0.0, 0.0, algorithm.ridge * S**2 / 2
        if i in heard:
            assert heard[i].kind == "model"
            told = heard[i].arrays
            gram, theta, m = told["gram"][0], told["theta"][0], float(told["count"][0])
            A, b, squares = A + gram, gram @ theta, theta @ gram @ theta
            beta = _beta_global(algorithm, problem, m, gram, theta)
            regret = c / 2 * _lemma_9(algorithm, problem, m) ** 2
        own = _own_since(agents, i)
        for x, y in zip(*own, strict=True):
            z = x @ theta
            A, b, squares = A + np.outer(x, x), b + z * x, squares + z**2
            towards = np.linalg.solve(A, x)
            regret += (expit(z) - y) ** 2 * (x @ towards) / (2 * c)
            theta = _projected(A, theta - (expit(z) - y) / c * towards, S)
        V[i], centre[i] = A, np.linalg.solve(A, b)
        beta += _beta_local(algorithm, problem, regret) if i in heard or len(own[1]) else 0.0
        width[i] = np.sqrt(max(beta + algorithm.ridge / c * S**2 - squares + centre[i] @ b, 0.0))
    scaled = algorithm.scale * width if algorithm.width == "theory" else np.full(n, algorithm.width)
    return optimistic(centre, V, scaled)


def _gradient_steps_after_the_download(
    agents: OnlineNewtonAgents, algorithm: Any, problem: Problem, heard: Downloads
) -> Indices:
    """As above, with Newton steps in the norm of the gradients' outer products and a state that is handed on."""
    (c, k), n, d, S = _slopes(problem), problem.agents, problem.dim, problem.bound
    G = np.sqrt(k**2 * S**2 + problem.noise**2)
    batch = max(1.0, n * problem.horizon / algorithm.updates)
    rate = min(1 / (4 * S * G), c / (G**2 * batch)) / 2
    V, centre, width = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
    for i in range(n):
        names = ("gram", "moment", "newton", "theta", "regret", "squares")
        first = (np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), np.zeros(d), 2 * rate * algorithm.ridge * S**2, 0.0)
        state = dict(zip(names, first, strict=True))
        if i in heard:
            assert heard[i].kind == "online"
            state = {name: array[0] for name, array in heard[i].arrays.items()}
        gram, b, A, theta, regret, squares = (state[name] for name in names)
        A, gram = A + algorithm.ridge * np.eye(d), gram + algorithm.ridge * np.eye(d)
        own = _own_since(agents, i)
        for x, y in zip(*own, strict=True):
            z = x @ theta
            g = (expit(z) - y) * x
            gram, b, squares, A = gram + np.outer(x, x), b + z * x, squares + z**2, A + np.outer(g, g)
            towards = np.linalg.solve(A, g)
            regret += g @ towards / (2 * rate)
            theta = _projected(A, theta - towards / rate, S)
        V[i], centre[i] = gram, np.linalg.solve(gram, b)
        beta = _beta_local(algorithm, problem, regret) if i in heard or len(own[1]) else 0.0
        width[i] = np.sqrt(max(beta + algorithm.ridge * S**2 - squares + centre[i] @ b, 0.0))
    scaled = algorithm.scale * width if algorithm.width == "theory" else np.full(n, algorithm.width)
    return optimistic(centre, V, scaled)


def _the_last_minimiser(agents: CentredAgents, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    c, n, d = _slopes(problem)[0], problem.agents, problem.dim
    gram, theta, count = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
    for i, message in heard.items():
        assert message.kind == "model"
        gram[i], theta[i], count[i] = (message.arrays[name][0] for name in ("gram", "theta", "count"))
    penalty = algorithm.ridge
    if isinstance(algorithm, FedGLBUCB1):
        penalty = algorithm.ridge / c
        width = np.array([_lemma_9(algorithm, problem, m) for m in count])
    else:
        volume = d / 2 * np.log(1 + 2 * problem.horizon / d)
        width = np.full(n, problem.noise / c * np.sqrt(volume + np.log(1 / algorithm.delta)))
    scaled = algorithm.scale * width if algorithm.width == "theory" else np.full(n, algorithm.width)
    return optimistic(theta, gram + penalty * np.eye(d), scaled)


ACTING: dict[type, Callable[..., Indices]] = {
    ClusterAgents: _all_it_knows_once_it_has_explored,
    LinUCBAgents: _all_it_knows,
    FedLinUCBAgents: _the_last_download,
    AsyncLinUCBAMAgents: _both_blocks,
    NewtonAgents: _steps_after_the_download,
    OnlineNewtonAgents: _gradient_steps_after_the_download,
    CentredAgents: _the_last_minimiser,
}


def acting_on(agents: Any, algorithm: Any, problem: Problem, heard: Downloads) -> Indices:
    """The index every agent should give every arm right now."""
    for kind, indices in ACTING.items():
        if isinstance(agents, kind):
            return indices(agents, algorithm, problem, heard)
    raise NotImplementedError(
        f"add a recomputation of what {type(agents).__name__} acts on to conformance/estimates.py"
    )
