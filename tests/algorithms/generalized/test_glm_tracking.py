"""Lemma 2's sums are kept without raw data; here they are formed again from all raw data of everybody."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.facts import Link, Noise
from fedbandits.testing.recording import recorded

N, D = 4, 5


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton", "n-ons-glm"])
def test_predictions_are_summed_as_they_were_made(name, schedule):
    """||z||^2, b and A of every agent: everybody's observations under the last minimiser, then its own, each under the
    iterate that it was met with.
    """
    env = fb.environments.Logistic(clients=N, dim=D, arms=7, schedule=schedule)
    parameters = {} if name == "n-ons-glm" else {"threshold": 2.0}
    everything, own = [], [[] for _ in range(N)]
    shared = (np.zeros((0, D)), np.zeros(0))
    iterates = np.zeros((N, D))
    updates = 0
    for event in recorded(ALGORITHMS[name](**parameters), env, 60 if schedule == "all" else 240):
        agents = event.side.agents
        for row, i in enumerate(event.who):
            x = event.arms[row, event.picks[row]]
            everything.append(x)
            own[i].append((x, x @ iterates[i]))
        if event.crossed:
            data = np.array(everything)
            shared = data, data @ event.side.server.theta
            own = [[] for _ in range(N)]
            updates += 1
        iterates = agents.theta.copy()
        for i in range(N):
            x = np.vstack([shared[0], *(pair[0] for pair in own[i])])
            z = np.append(shared[1], [pair[1] for pair in own[i]])
            models = agents.models
            gram = models.base.gram[i] + models.fresh.gram[i]
            np.testing.assert_allclose(gram, x.T @ x, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(models.base.moment[i] + models.fresh.moment[i], x.T @ z, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(agents.squares[i], z @ z, rtol=1e-9, atol=1e-11)
            assert models.base.count[i] + models.fresh.count[i] == len(z)
    assert updates >= 3 or name == "n-ons-glm"


def test_variant_3_sums_epochs_under_the_estimate_they_began_with():
    """The global step sees the gradients of the whole epoch at the last common estimate, not at the local ones."""
    env = fb.environments.Logistic(clients=N, dim=D, arms=7)
    algorithm = ALGORITHMS["fedglb-ucb-3"](updates=10)
    problem = env.world(60, np.random.SeedSequence(0)).problem
    rate, ridge = algorithm.rate(problem), algorithm.ridge
    gram, newton, moment, theta = np.zeros((D, D)), np.zeros((D, D)), np.zeros(D), np.zeros(D)
    squares, regret, epoch, updates = 0.0, 2 * rate * ridge, [], 0
    for event in recorded(algorithm, env, 60):
        epoch += zip(event.arms[np.arange(N), event.picks], event.rewards, strict=True)
        if not event.crossed:
            continue
        x, y = (np.array(part) for part in zip(*epoch, strict=True))
        gradient = x.T @ (expit(x @ theta) - y)
        gram, moment, squares = gram + x.T @ x, moment + x.T @ (x @ theta), squares + ((x @ theta) ** 2).sum()
        newton += np.outer(gradient, gradient)
        step = np.linalg.solve(newton + ridge * np.eye(D), gradient)
        regret += gradient @ step / (2 * rate)
        server, agents = event.side.server, event.side.agents
        if np.linalg.norm(theta - step / rate) <= 1:
            np.testing.assert_allclose(server.theta[0], theta - step / rate, rtol=1e-8, atol=1e-10)
        theta, epoch, updates = server.theta[0].copy(), [], updates + 1
        found = (server.gram[0], server.newton[0], server.moment[0], server.squares[0], server.regret[0])
        for mine, theirs in zip((gram, newton, moment, squares, regret), found, strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=1e-8, atol=1e-10)
        for i in range(N):
            np.testing.assert_array_equal(agents.theta[i], theta)
            np.testing.assert_allclose(
                agents.inverse[i], np.linalg.inv(newton + ridge * np.eye(D)), rtol=1e-6, atol=1e-12
            )
    assert updates == 10


def test_losses_of_raw_data():
    """Loss, gradient and Hessian against numpy, for agents with different numbers of observations, some given."""
    agents = ALGORITHMS["fedglb-newton"]().agents(
        fb.Problem(agents=3, dim=D, arms=2, horizon=2, facts=(Noise(0.5), Link("logistic"))), 3, None
    )
    rng = np.random.default_rng(0)
    kept = [[], [], []]
    for t in range(9):
        who = np.arange(t % 3 + 1)
        arms, rewards = rng.standard_normal((len(who), 2, D)), rng.integers(0, 2, len(who)).astype(float)
        agents.learn(who, arms, np.ones(len(who), dtype=np.int64), rewards)
        for i in who:
            kept[i].append((arms[i, 1], rewards[i]))
        if t == 3:
            agents.data.give(np.arange(3))
    data, link, who = agents.data, agents._s.link, np.array([2, 0])
    assert data.given.tolist() == [4, 2, 1]
    theta = rng.standard_normal((2, D))
    everything = data.curvatures(link, who, theta, given=False)
    given = data.curvatures(link, who, theta, given=True)
    first, later = (data.gradients(link, who, theta, given=which) for which in (True, False))
    for row, i in enumerate(who):
        x, y = (np.array(part) for part in zip(*kept[i], strict=True))
        m = data.given[i]
        z = x @ theta[row]
        p = expit(z)
        for (loss, gradient, hessian), end in ((everything, len(x)), (given, m)):
            np.testing.assert_allclose(loss[row], (np.logaddexp(0, z) - y * z)[:end].sum())
            np.testing.assert_allclose(gradient[row], x[:end].T @ (p - y)[:end])
            np.testing.assert_allclose(hessian[row], (x * (p * (1 - p))[:, None])[:end].T @ x[:end])
        np.testing.assert_allclose(first[row], x[:m].T @ (p - y)[:m])
        np.testing.assert_allclose(later[row], x[m:].T @ (p - y)[m:])
    told = list(data.since(who))
    assert [late.tolist() for late, _, _ in told] == [[2, 0], [2, 0], [0], [0], [0]]
    for number, (late, arms, rewards) in enumerate(told):
        for i, arm, reward in zip(late, arms, rewards, strict=True):
            np.testing.assert_array_equal(arm, kept[i][data.given[i] + number][0])
            assert reward == kept[i][data.given[i] + number][1]
