"""Exact processes: a factor that grows by rows against direct solves and scikit-learn, alone and in company."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from fedbandits.contract.errors import ConfigError
from fedbandits.models.kernels import Linear, Matern, SquaredExponential
from fedbandits.models.processes import Processes

KERNELS = [
    SquaredExponential((0.7, 1.3)),
    SquaredExponential((0.7, 1.3), additive=True),
    Linear(2),
    *(Matern((0.7, 1.3), smoothness) for smoothness in (0.5, 1.5, 2.5)),
]


def observations(count, n=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, count, 2)), rng.normal(size=(n, count))


def filled(kernel, points, rewards, ridge=0.3, capacity=400):
    n, count = rewards.shape
    models = Processes(n, kernel, ridge, capacity)
    for t in range(count):
        models.learn(np.arange(n), points[:, t], rewards[:, t])
    return models


def direct(kernel, points, rewards, arms, ridge):
    """mu, sigma and log det(I + K/lambda) by one solve."""
    V = kernel.matrix(points, points) + ridge * np.eye(len(points))
    cross = kernel.matrix(points, arms)
    variance = kernel.diagonal(arms) - np.einsum("tk,tk->k", cross, np.linalg.solve(V, cross))
    return cross.T @ np.linalg.solve(V, rewards), np.sqrt(variance), np.linalg.slogdet(V / ridge)[1]


@settings(max_examples=25, deadline=None)
@given(
    which=st.sampled_from(range(len(KERNELS))),
    count=st.integers(0, 90),
    ridge=st.sampled_from([1e-3, 0.1, 1.0, 10.0]),
    seed=st.integers(0, 999),
)
def test_appended_rows_are_a_direct_solve(which, count, ridge, seed):
    kernel = KERNELS[which]
    points, rewards = observations(count, seed=seed)
    models = filled(kernel, points, rewards, ridge)
    arms = np.random.default_rng(seed).uniform(-1, 1, (3, 7, 2))
    mean, deviation = models.posterior(np.arange(3), arms)
    for i in range(3):
        mu, sigma, logdet = direct(kernel, points[i], rewards[i], arms[i], ridge)
        np.testing.assert_allclose(mean[i], mu, atol=1e-8)
        np.testing.assert_allclose(deviation[i], sigma, atol=1e-8)
        assert models.logdet[i] == pytest.approx(logdet, abs=1e-8)


def test_posteriors_are_scikit_learns():
    points, rewards = observations(150)
    models = filled(KERNELS[0], points, rewards, ridge=0.3)
    arms = np.random.default_rng(5).uniform(-1, 1, (3, 40, 2))
    mean, deviation = models.posterior(np.arange(3), arms)
    for i in range(3):
        yardstick = GaussianProcessRegressor(RBF((0.7, 1.3)), alpha=0.3, optimizer=None).fit(points[i], rewards[i])
        mu, sigma = yardstick.predict(arms[i], return_std=True)
        np.testing.assert_allclose(mean[i], mu, atol=1e-11)
        np.testing.assert_allclose(deviation[i], sigma, atol=1e-11)


def test_the_same_point_again_and_again_does_no_harm():
    """K is singular, and lambda all that keeps the factor."""
    models = Processes(1, KERNELS[0], 1e-6, 400)
    for t in range(300):
        models.learn(np.zeros(1, dtype=np.int64), np.array([[0.5, -0.5]]), np.array([t % 2 * 1.0]))
    mean, deviation = models.posterior(np.zeros(1, dtype=np.int64), np.array([[[0.5, -0.5], [0.5, -0.4]]]))
    assert mean[0, 0] == pytest.approx(0.5, abs=1e-6)
    assert deviation[0, 0] == pytest.approx(np.sqrt(1e-6 / 300), rel=1e-2)
    assert deviation[0, 1] > deviation[0, 0]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_an_agent_alone_computes_the_same_bits(kernel):
    """Whatever others have observed meanwhile, and however much room they needed."""
    points, rewards = observations(80, n=4)
    rng = np.random.default_rng(2)
    together, alone = Processes(4, kernel, 0.3, 400), [Processes(1, kernel, 0.3, 400) for _ in range(4)]
    one = np.zeros(1, dtype=np.int64)
    for t in range(80):
        who = np.flatnonzero(rng.random(4) < np.array([1.0, 0.7, 0.3, 0.1]))
        together.learn(who, points[who, t], rewards[who, t])
        for agent in who:
            alone[agent].learn(one, points[agent : agent + 1, t], rewards[agent : agent + 1, t])
    arms = rng.uniform(-1, 1, (4, 9, 2))
    mean, deviation = together.posterior(np.arange(4), arms)
    for i in range(4):
        own = alone[i].posterior(one, arms[i : i + 1])
        np.testing.assert_array_equal(mean[i], own[0][0])
        np.testing.assert_array_equal(deviation[i], own[1][0])
        for name, array in together.share(i).items():
            np.testing.assert_array_equal(array, alone[i].share(0)[name])


def test_equal_arms_are_worth_the_same_wherever_they_stand():
    points, rewards = observations(50)
    models = filled(KERNELS[0], points, rewards)
    arms = np.repeat(np.random.default_rng(3).uniform(-1, 1, (3, 1, 2)), 27, axis=1)
    for found in models.posterior(np.arange(3), arms):
        np.testing.assert_array_equal(found, np.repeat(found[:, :1], 27, axis=1))


def test_a_full_process_says_what_to_do_and_stays_as_it_is():
    points, rewards = observations(40)
    models = filled(KERNELS[0], points, rewards, capacity=40)
    before = models.state()
    with pytest.raises(ConfigError, match=r"have made 40 observations.*raise capacity.*gp-ucb-features"):
        models.learn(np.arange(3), points[:, 0], rewards[:, 0])
    for name, array in models.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_snapshots_carry_what_was_used_and_refuse_what_does_not_fit():
    points, rewards = observations(70)
    models = filled(KERNELS[0], points, rewards)
    fresh = Processes(3, KERNELS[0], 0.3, 400)
    fresh.load(models.state())
    arms = np.random.default_rng(3).uniform(-1, 1, (3, 5, 2))
    for own, other in zip(models.posterior(np.arange(3), arms), fresh.posterior(np.arange(3), arms), strict=True):
        np.testing.assert_array_equal(own, other)
    cut = models.state() | {"factor": models.state()["factor"][:, :-1]}
    with pytest.raises(ValueError, match="factor has shape"):
        fresh.load(cut)
