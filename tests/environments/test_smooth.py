"""Worlds with smooth rewards: where means lie, what functions are drawn, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from fedbandits.contract.errors import ConfigError
from fedbandits.environments import Camelback, Michalewicz, RKHSMixture, StyblinskiTang
from fedbandits.environments.rkhs_mixture import _in_one_ball, in_ball
from fedbandits.facts import RKHS, Noise, Range

SMALL = {"clients": 8, "arms": 6}
FUNCTIONS = [Camelback(**SMALL), StyblinskiTang(**SMALL, dim=4), StyblinskiTang(**SMALL), Michalewicz(**SMALL)]


def world(env, seed=0, horizon=200):
    return env.world(horizon, np.random.SeedSequence(seed))


def shown(instance, steps=30):
    """(steps w, K, d) arms, and (steps w, K) what each of them is worth on average, by paying for it."""
    arms, means = [], []
    for step in range(steps):
        turn = instance.turn(step)
        arms.append(turn.arms)
        means.append(instance.means_at(step))
    return np.concatenate(arms), np.concatenate(means)


# mixtures of kernels


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_arm_is_good_and_all_others_are_not(seed):
    instance = world(RKHSMixture(**SMALL), seed)
    arms, means = shown(instance, 10)
    ordered = np.sort(means, axis=1)
    assert ordered[:, -1].min() >= 0.8
    assert ordered[:, -2].max() <= 0.6
    assert ordered.min() >= 0
    assert np.linalg.norm(arms, axis=2).max() <= 2


def test_means_are_the_mixtures_by_its_definition():
    instance = world(RKHSMixture(**SMALL))
    arms, means = shown(instance, 5)
    mixture = instance._source.mixture
    apart = arms[..., None, :] - mixture.centres
    np.testing.assert_allclose(means, np.exp(-(apart**2).sum(-1) / 2) @ mixture.weights, rtol=1e-12)
    assert len(mixture.weights) == 4
    assert np.abs(mixture.weights).sum() <= 1


def test_the_best_arm_is_anywhere():
    _, means = shown(world(RKHSMixture(**SMALL)), 100)
    assert stats.chisquare(np.bincount(means.argmax(axis=1), minlength=6)).pvalue > 1e-3


def test_rewards_are_clicks_of_that_probability():
    instance = world(RKHSMixture(clients=40, arms=3), horizon=400)
    hits, expected = [], []
    for step in range(400):
        turn = instance.turn(step)
        hits.append(instance.pay(step, np.zeros(len(turn.who), dtype=np.int64)).rewards)
        expected.append(instance.means_at(step)[:, 0])
    hits, expected = np.concatenate(hits), np.concatenate(expected)
    assert set(np.unique(hits)) == {0.0, 1.0}
    error = np.sqrt((expected * (1 - expected)).sum())
    assert abs((hits - expected).sum()) < 4 * error


def test_points_are_uniform_in_their_balls():
    rng = np.random.default_rng(0)
    points = in_ball(rng, 4000, 3, 2.0)
    assert stats.kstest((np.linalg.norm(points, axis=1) / 2) ** 3, "uniform").pvalue > 1e-3
    # of uniform points in the ball of the 1-norm, the norm to the power of the dimension is uniform, signs are even
    weights = np.array([_in_one_ball(rng, 4) for _ in range(4000)])
    assert stats.kstest(np.abs(weights).sum(axis=1) ** 4, "uniform").pvalue > 1e-3
    assert abs((weights > 0).mean() - 0.5) < 0.02


def test_agents_are_told_how_smooth_mixtures_are():
    problem = world(RKHSMixture(**SMALL, lengthscale=0.5, radius=1.0)).problem
    assert problem.get(RKHS) == RKHS(0.5, bound=1.0, low=-1.0, high=1.0)
    assert problem.get(Range) == Range(0.0, 1.0)
    assert problem.get(Noise) == Noise(0.5)


def test_no_function_will_do():
    with pytest.raises(ConfigError, match=r"none of \d+ functions reaches high=0.99"):
        world(RKHSMixture(clients=1, arms=2, dim=6, centres=40, high=0.99, lengthscale=0.1))
    with pytest.raises(ConfigError, match=r"low=0.9 must not be above high=0.8"):
        RKHSMixture(low=0.9)


# benchmark functions


def test_values_by_hand():
    """The six-hump camel has its minimum of -1.0316 at (0.0898, -0.7126), Styblinski and Tang's -39.166 a coordinate at
    -2.9035; at u = pi/2 the first coordinate of the third is sin(1/2)^2 of one dimension.
    """
    assert Camelback().values(np.array([0.0898 / 4, -0.7126 / 2])) == pytest.approx(1.0316 / 5, abs=1e-5)
    assert Camelback().values(np.array([0.25, 0.25])) == pytest.approx(-(2.2333333 + 0.5 - 0.75) / 5, abs=1e-6)
    assert StyblinskiTang(dim=3).values(np.full(3, -2.9035 / 8)) == pytest.approx(-(0.5 - 39.166 / 200), abs=1e-5)
    assert Michalewicz(dim=1).values(np.zeros(1)) == pytest.approx(np.sin(0.5) ** 2)


@pytest.mark.parametrize("env", FUNCTIONS, ids=lambda env: f"{env.about.name}-{env.dim}")
def test_nothing_is_better_than_the_best(env):
    best = env.best()
    low, high = env.extremes()
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, (20_000, len(best)))
    values = env.values(points)
    assert env.values(best) >= values.max() - 1e-12
    assert low <= values.min()
    assert values.max() <= high
    assert high == pytest.approx(env.values(best), abs=1e-8)
    for start in (best, points[values.argmax()]):
        found = minimize(lambda x: -float(env.values(x)), start, bounds=[(-0.5, 0.5)] * len(best))
        assert -found.fun <= env.values(best) + 1e-8
    worst = minimize(lambda x: float(env.values(x)), points[values.argmin()], bounds=[(-0.5, 0.5)] * len(best))
    assert worst.fun >= low - 1e-12


@pytest.mark.parametrize("env", FUNCTIONS, ids=lambda env: f"{env.about.name}-{env.dim}")
def test_the_best_is_among_the_arms_at_a_random_place(env):
    arms, means = shown(world(env), 60)
    np.testing.assert_allclose(means.max(axis=1), env.values(env.best()), rtol=1e-12)
    assert stats.chisquare(np.bincount(means.argmax(axis=1), minlength=6)).pvalue > 1e-3
    np.testing.assert_allclose(means, env.values(arms), rtol=1e-12)
    without = shown(world(replace(env, optimum=False)), 10)[1]
    assert without.max() < env.values(env.best())


@pytest.mark.parametrize("env", FUNCTIONS, ids=lambda env: f"{env.about.name}-{env.dim}")
def test_rewards_keep_to_the_range_that_is_told(env):
    instance = world(env)
    known = instance.problem.get(Range)
    noise = []
    for step in range(200):
        turn = instance.turn(step)
        picks = np.arange(len(turn.who)) % 6
        rewards = instance.pay(step, picks).rewards
        assert rewards.min() >= known.low
        assert rewards.max() <= known.high
        noise.append(rewards - env.values(turn.arms[np.arange(len(picks)), picks]))
    noise = np.concatenate(noise)
    assert noise.std() == pytest.approx(0.1, rel=0.05)
    assert abs(noise.mean()) < 4 * 0.1 / np.sqrt(noise.size)
    assert instance.problem.get(RKHS).additive == (env.about.name != "camelback")
    assert instance.parameters() is None
