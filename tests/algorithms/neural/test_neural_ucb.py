"""NeuralUCB and NeuralTS against a plain replay, and both profiles and matrices."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.neural.fn_messages import FAR
from fedbandits.algorithms.neural.neural_ucb import NeuralTS, NeuralUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine
from fedbandits.models.networks import gradients, outputs, symmetric
from fedbandits.testing import check_algorithm

D, ROW = 4, np.array([0])


def alone(kind=NeuralUCB, **parameters):
    algorithm = kind(**({"width": 6, "steps": 4} | parameters))
    problem = Problem(agents=1, dim=D, arms=3, horizon=40)
    return algorithm, problem, algorithm.agents(problem, 1, Streams(np.random.SeedSequence(2), 1))


def doubled(rng, count):
    x = rng.standard_normal((count, D // 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.hstack([x, x]) / np.sqrt(2)


@pytest.mark.parametrize("matrix", ["full", "diagonal"])
@pytest.mark.parametrize("profile", ["paper", "code"])
def test_indices_are_those_of_the_formula(profile, matrix):
    algorithm, problem, agents = alone(profile=profile, matrix=matrix, ridge=0.7, nu=0.4, until=15)
    network = algorithm.network(problem)
    first = theta = agents.network.theta[0].copy()
    U, xs, ys = 0.7 * np.eye(network.parameters), [], []
    rng = np.random.default_rng(0)
    for turn in range(20):
        arms = doubled(rng, 3)[None]
        g = gradients(network, theta[None], ROW, arms)[0] / (np.sqrt(6) if profile == "paper" else 1)
        V = U if matrix == "full" else np.diag(np.diag(U))
        spread = np.sqrt(np.einsum("kp,pk->k", g, np.linalg.solve(V, g.T)))
        expected = outputs(network, theta[None], ROW, arms)[0] + 0.4 * np.sqrt(0.7) * spread
        np.testing.assert_allclose(agents.scores(ROW, arms)[0], expected, rtol=1e-7, atol=1e-9)
        pick = agents.choose(ROW, arms)
        assert pick[0] == expected.argmax()
        reward = rng.normal(size=1)
        agents.learn(ROW, arms, pick, reward)
        U = U + np.outer(g[pick[0]], g[pick[0]])
        xs.append(arms[0, pick[0]])
        ys.append(reward[0])
        if turn < 15:
            x, y = np.array(xs)[None], np.array(ys)
            for _ in range(4):
                gaps = outputs(network, theta[None], ROW, x)[0] - y
                slope = gaps @ gradients(network, theta[None], ROW, x)[0]
                pull = 6 * 0.7 * (theta - first) if profile == "paper" else 0.7 * theta
                theta = theta - 0.01 / len(y) * ((1 if profile == "paper" else 2) * slope + pull)
        np.testing.assert_allclose(agents.network.theta[0], theta, rtol=1e-8, atol=1e-10)


def test_the_paper_begins_symmetric_and_the_code_with_standard_normals():
    algorithm, problem, agents = alone(profile="paper")
    common = Streams(np.random.SeedSequence(2), 1).common("network")
    np.testing.assert_array_equal(agents.network.theta[0], symmetric(algorithm.network(problem), common))
    _, _, agents = alone(width=200)
    assert agents.network.theta.std() == pytest.approx(1.0, abs=0.08)


def test_contexts_that_cannot_be_symmetric_are_refused():
    problem = Problem(agents=1, dim=5, arms=3, horizon=4)
    with pytest.raises(ConfigError, match=r"profile: a symmetric beginning needs .* even dimension"):
        NeuralUCB(profile="paper").agents(problem, 1, Streams(np.random.SeedSequence(0), 1))


def test_draws_are_independent_normals():
    _, _, agents = alone(NeuralTS, nu=1.0)
    rng = np.random.default_rng(3)
    for _ in range(6):
        arms = doubled(rng, 3)[None]
        agents.learn(ROW, arms, np.array([0]), rng.normal(size=1))
    arms = doubled(rng, 3)[None]
    means, deviations = (part[0] for part in agents._judged(ROW, arms))
    wins = np.bincount((means + deviations * rng.standard_normal((200_000, 3))).argmax(axis=1), minlength=3) / 200_000
    np.testing.assert_allclose(agents.chances(ROW, arms)[0], wins, atol=0.01)
    drawn = np.bincount([agents.choose(ROW, arms)[0] for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(drawn, wins, atol=5 * np.sqrt(0.25 / 4000))


@pytest.mark.parametrize("kind", [NeuralUCB, NeuralTS])
def test_diagonals_on_doubled_contexts_keep_the_promises(kind):
    algorithm = kind(profile="paper", matrix="diagonal", width=4, layers=2, steps=2)
    check_algorithm(algorithm, Cosine(clients=3, dim=3, arms=4, doubled=True), horizon=12)


def test_it_learns_what_no_linear_model_can():
    environment = Cosine(clients=1, contexts="cube", direction="released")
    neural = fb.simulate(NeuralUCB(ridge=0.1), environment, 400, seed=1)
    linear = fb.simulate("independent-linucb", environment, 400, seed=1)
    assert neural.regret[-1] < 0.6 * linear.regret[-1]


@pytest.mark.parametrize("length", [30.0, 1e4])
@pytest.mark.parametrize("kind", [NeuralUCB, NeuralTS])
def test_networks_survive_contexts_at_which_descent_diverges(kind, length):
    algorithm, problem, agents = alone(kind, steps=30)
    rng = np.random.default_rng(3)
    for _ in range(30):
        arms = length * rng.standard_normal((1, 3, D))
        pick = agents.choose(ROW, arms)
        agents.learn(ROW, arms, pick, rng.normal(size=1))
    assert np.linalg.norm(agents.network.theta[0]) <= FAR * np.sqrt(algorithm.network(problem).parameters) * (1 + 1e-12)
