"""KernelUCB and KernelTS: the formulas of the publication that they are baselines of, done directly."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import IndependentLinUCB, KernelTS, KernelUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine, Linear, RKHSMixture

T = 60


def playing(algorithm, env, horizon=T, seed=3):
    world = env.world(horizon, np.random.SeedSequence(seed))
    n = world.problem.agents
    return world, algorithm.agents(world.problem, n, Streams(np.random.SeedSequence(0), n))


def direct(x, y, arms, ridge):
    """mu = k^T (K + lambda I)^-1 y and 1 - k^T (K + lambda I)^-1 k for k(x, y) = exp(-||x - y||)."""

    def k(left, right):
        return np.exp(-np.linalg.norm(left[:, None] - right[None], axis=2))

    inverse = np.linalg.inv(k(x, x) + ridge * np.eye(len(x)))
    cross = k(arms, x)
    return cross @ inverse @ y, 1 - np.einsum("kt,ts,ks->k", cross, inverse, cross)


@pytest.mark.parametrize("keep", [None, 20])
def test_indices_are_those_of_the_released_code(keep):
    """mu + sqrt(lambda nu' (1 - ...)) with nu' = nu^2, over the first `keep` observations."""
    ridge, nu = 0.6, 0.3
    world, agents = playing(KernelUCB(ridge=ridge, nu=nu, keep=keep), Cosine(clients=3, dim=4, arms=6))
    x, y = [[] for _ in range(3)], [[] for _ in range(3)]
    for step in range(T):
        turn = world.turn(step)
        scores = agents.scores(turn.who, turn.arms)
        if step:
            for i in range(3):
                mean, variance = direct(np.array(x[i][:keep]), np.array(y[i][:keep]), turn.arms[i], ridge)
                np.testing.assert_allclose(scores[i], mean + np.sqrt(ridge * nu**2 * variance), rtol=1e-9)
        picks = agents.choose(turn.who, turn.arms)
        rewards = world.pay(step, picks).rewards
        agents.learn(turn.who, turn.arms, picks, rewards)
        for i in range(3):
            x[i].append(turn.arms[i, picks[i]])
            y[i].append(rewards[i])
    assert (agents.models.count == (T if keep is None else keep)).all()


def test_under_the_linear_kernel_it_is_linucb():
    """Width sqrt(lambda nu') there, nu' lambda under the root here."""
    world, kernel = playing(KernelUCB(kernel="linear", ridge=0.7, nu=0.3), Linear(clients=4, dim=5, arms=8))
    _, linear = playing(IndependentLinUCB(width=0.3 * 0.7, ridge=0.7), Linear(clients=4, dim=5, arms=8))
    for step in range(T):
        turn = world.turn(step)
        scores = linear.scores(turn.who, turn.arms)
        np.testing.assert_allclose(kernel.scores(turn.who, turn.arms), scores, rtol=1e-9, atol=1e-10)
        picks = linear.choose(turn.who, turn.arms)
        if step:  # before anything is known arms may be as good as each other
            np.testing.assert_array_equal(kernel.choose(turn.who, turn.arms), picks)
        rewards = world.pay(step, picks).rewards
        for agents in (linear, kernel):
            agents.learn(turn.who, turn.arms, picks, rewards)


def test_draws_have_the_posteriors_mean_and_deviation():
    """Frequencies of choices over many agents who know the same are the chances that they tell, and those of draws."""
    n, ridge, nu = 4000, 0.5, 0.8
    problem = Cosine(clients=n, dim=3, arms=3).world(10, np.random.SeedSequence(0)).problem
    agents = KernelTS(ridge=ridge, nu=nu, capacity=10).agents(problem, n, Streams(np.random.SeedSequence(1), n))
    rng, who = np.random.default_rng(0), np.arange(n)
    x, y, arms = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(3, 3))
    for point, reward in zip(x, y, strict=True):
        shown = np.broadcast_to(point, (n, 1, 3)).copy()
        agents.learn(who, shown, np.zeros(n, dtype=np.int64), np.full(n, reward))
    shown = np.broadcast_to(arms, (n, 3, 3)).copy()
    mean, variance = direct(x, y, arms, ridge)
    drawn = mean + np.sqrt(ridge * nu**2 * variance) * rng.standard_normal((200_000, 3))
    expected = np.bincount(drawn.argmax(axis=1), minlength=3) / len(drawn)
    found = np.bincount(agents.choose(who, shown), minlength=3) / n
    np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(0.25 / n))
    np.testing.assert_allclose(agents.chances(who[:1], shown[:1])[0], expected, atol=0.015)
    assert agents.scores(who, shown) is None


def test_draws_have_an_extent_where_nothing_is_left_to_learn():
    """No variance is below 10^-6: of two equal arms each is taken half of the time."""
    n = 2000
    problem = Cosine(clients=n, dim=2, arms=2).world(5, np.random.SeedSequence(0)).problem
    agents = KernelTS(nu=0.0, capacity=5).agents(problem, n, Streams(np.random.SeedSequence(1), n))
    picks = agents.choose(np.arange(n), np.ones((n, 2, 2)))
    assert picks.mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / n))


@pytest.mark.parametrize("kernel", ["rbf", "matern-1/2", "matern-3/2", "matern-5/2", "told"])
def test_every_kernel_learns_a_smooth_function(kernel):
    env = RKHSMixture(clients=3, arms=12)
    setting = KernelUCB(kernel=kernel, lengthscale=0.3)
    regret = fb.simulate(setting, env, horizon=150, seed=0).regret[-1]
    chance = fb.simulate("random", env, horizon=150, seed=0).regret[-1]
    assert regret < 0.6 * chance


def test_what_does_not_fit_is_refused_with_the_fix():
    env = Cosine(clients=2, dim=4, arms=3)
    with pytest.raises(ConfigError, match=r"kernel-ucb: capacity=50 .* 60 turns.*keep=N"):
        playing(KernelUCB(capacity=50), env)
    playing(KernelUCB(capacity=50, keep=50), env)
    with pytest.raises(ConfigError, match=r"lengthscale: 2 are given for arms of dimension 4"):
        playing(KernelUCB(lengthscale=(1.0, 2.0)), env)
    with pytest.raises(ConfigError, match=r"rkhs-mixture"):
        playing(KernelUCB(kernel="told"), env)
    with pytest.raises(ConfigError, match="kernel"):
        KernelUCB(kernel="matern")
