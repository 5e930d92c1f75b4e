"""The generalized linear family: mean rewards are mu(<theta, x>); the suite's problems have the logistic link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from conformance.families.linear import SIZES
from conformance.family import Family
from conformance.recomputing import Downloads, Indices, bound_of, from_statistics, noise_of, optimistic
from fedbandits.algorithms.generalized.agents import CentredAgents, NewtonAgents
from fedbandits.algorithms.generalized.fedglb_ucb import FedGLBUCB1
from fedbandits.algorithms.generalized.fedglb_ucb_3 import OnlineNewtonAgents
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Link, Norms
from fedbandits.contract.problem import Problem


def _slopes(problem: Problem) -> tuple[float, float]:
    """c and k of the logistic link, which the suite's generalized linear problems have."""
    assert problem.get(Link, Link()).function == "logistic"
    far = expit(bound_of(problem) * problem.get(Norms, Norms()).arms)
    return far * (1 - far), 0.25


def _lemma_9(algorithm: Any, problem: Problem, m: float) -> float:
    """W, the width around the minimiser over m observations."""
    c, k = _slopes(problem)
    prior = np.sqrt(algorithm.ridge / c) * bound_of(problem)
    if m == 0:
        return prior
    inexact = np.sqrt(2 * k / (algorithm.ridge * c) + 2 / (m * c))
    volume = problem.dim * np.log(1 + m * c / (problem.dim * algorithm.ridge))
    return inexact + noise_of(problem) / c * np.sqrt(volume + 2 * np.log(1 / algorithm.delta)) + prior


def _beta_local(algorithm: Any, problem: Problem, regret: float) -> float:
    c, R, delta = _slopes(problem)[0], noise_of(problem), algorithm.delta
    root = np.sqrt(4 + 8 * regret / c + 64 * R**4 / (4 * c**4 * delta**2))
    return 1 + 4 * regret / c + 8 * (R / c) ** 2 * np.log(problem.agents / delta * root)


def _beta_global(algorithm: Any, problem: Problem, m: float, gram: FloatArray, theta: FloatArray) -> float:
    c, R, S = _slopes(problem)[0], noise_of(problem), bound_of(problem)
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
    (c, _), d, S = _slopes(problem), problem.dim, bound_of(problem)
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
    (c, k), n, d, S = _slopes(problem), problem.agents, problem.dim, bound_of(problem)
    G = np.sqrt(k**2 * S**2 + noise_of(problem) ** 2)
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
        width = np.full(n, noise_of(problem) / c * np.sqrt(volume + np.log(1 / algorithm.delta)))
    scaled = algorithm.scale * width if algorithm.width == "theory" else np.full(n, algorithm.width)
    return optimistic(theta, gram + penalty * np.eye(d), scaled)


_BOTH = {"threshold": 0.5, "scale": 0.1}
FAMILY = Family(
    small={"logistic": SIZES},
    talkative={"fedglb-ucb": _BOTH, "fedglb-newton": _BOTH},
    silent={"fedglb-ucb": {"threshold": math.inf}, "fedglb-newton": {"threshold": math.inf}},
    confident=({"width": "theory"}, {"width": 0.3}),
    choices=from_statistics(
        {
            OnlineNewtonAgents: _gradient_steps_after_the_download,
            NewtonAgents: _steps_after_the_download,
            CentredAgents: _the_last_minimiser,
        }
    ),
    harsh={"ridge": 1e-5, "cap": 3, "iterations": 3},
    affordable={"n-ucb-glm": 2_500, "one-ucb-glm": 2_500},
)
