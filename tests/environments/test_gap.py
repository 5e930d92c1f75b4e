"""Arms with a gap: where their means lie, how they are spread, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.environments import Gap, Gap2, LinearBounded

SMALL = {"clients": 40, "dim": 6, "arms": 7}


def world(env, seed=0, horizon=100):
    return env.world(horizon, np.random.SeedSequence(seed))


def shown(instance, steps=20):
    """(steps w, K, d) everything that is shown."""
    return np.concatenate([instance.turn(step).arms for step in range(steps)])


@settings(max_examples=25, deadline=None)
@given(
    low=st.floats(0, 0.5),
    width=st.floats(0, 0.15),
    gap=st.floats(0, 0.2),
    nuisance=st.floats(0, 0.3),
    dim=st.integers(2, 6),
    arms=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_means_lie_in_their_bands_and_arms_in_the_unit_ball(low, width, gap, nuisance, dim, arms, seed):
    env = Gap(clients=5, dim=dim, arms=arms, low=low, width=width, gap=gap, nuisance=nuisance)
    instance = world(env, seed)
    drawn = shown(instance, 8)
    means = np.sort(drawn @ instance.theta[0], axis=1)
    assert np.linalg.norm(drawn, axis=2).max() <= 1 + 1e-12
    assert means[:, :-1].size == 0 or means[:, :-1].max() <= low + width + 1e-12
    assert means[:, :-1].size == 0 or means[:, :-1].min() >= low - 1e-12
    assert means[:, -1].min() >= low + width + gap - 1e-12
    assert means[:, -1].max() <= low + 2 * width + gap + 1e-12


def test_by_default_the_bands_are_the_thesis():
    env = Gap()
    assert (env.low, env.low + env.width) == pytest.approx((0.5, 0.6))
    assert (env.low + env.width + env.gap, env.highest) == pytest.approx((0.7, 0.8))
    assert env.arms <= env.dim**2


@pytest.mark.parametrize("env", [Gap(**SMALL), Gap2(**SMALL)], ids=["gap", "gap2"])
def test_means_are_uniform_in_their_bands_and_the_best_is_anywhere(env):
    instance = world(env)
    means = shown(instance, 50) @ instance.theta[0]
    best = means.argmax(axis=1)
    assert stats.chisquare(np.bincount(best, minlength=7)).pvalue > 1e-3
    assert stats.kstest(means.max(axis=1), "uniform", args=(0.7, 0.1)).pvalue > 1e-3
    rest = np.sort(means, axis=1)[:, :-1].ravel()
    assert stats.kstest(rest, "uniform", args=(0.5, 0.1)).pvalue > 1e-3


@pytest.mark.parametrize("env", [Gap(**SMALL), Gap2(**SMALL)], ids=["gap", "gap2"])
def test_beside_theta_arms_are_uniform_in_a_ball(env):
    """Of dimension d - 1: (||z|| / radius)^(d-1) is uniform, and so is every direction."""
    instance = world(env)
    theta = instance.theta[0]
    drawn = shown(instance, 50).reshape(-1, 6)
    a = drawn @ theta
    aside = drawn - a[:, None] * theta - env.nuisance * instance._source._aside
    radius = np.sqrt(1 - a**2) - env.nuisance
    share = np.linalg.norm(aside, axis=1) / radius
    assert stats.kstest(share**5, "uniform").pvalue > 1e-3
    axes = np.linalg.svd(theta[None])[2][1:]
    unit = aside / np.linalg.norm(aside, axis=1)[:, None]
    found = (unit @ axes.T).T @ (unit @ axes.T) / len(unit)
    np.testing.assert_allclose(found, np.eye(5) / 5, atol=0.01)


def test_the_mean_arm_is_parallel_to_theta_and_with_a_nuisance_it_is_not():
    for env, angle in ((Gap(**SMALL), 0.0), (Gap2(**SMALL), np.arctan2(0.3, 0.55 + 0.2 / 7))):
        instance = world(env)
        mean = shown(instance, 60).mean(axis=(0, 1))
        cosine = mean @ instance.theta[0] / np.linalg.norm(mean)
        assert np.arccos(cosine) == pytest.approx(angle, abs=0.02)


def test_rewards_are_clicks_of_the_stated_probability():
    instance = world(Gap(**SMALL))
    paid, means = [], []
    for step in range(100):
        turn = instance.turn(step)
        paid.append(instance.pay(step, np.zeros(40, dtype=np.int64)).rewards)
        means.append(turn.arms[:, 0] @ instance.theta[0])
    paid, means = np.concatenate(paid), np.concatenate(means)
    assert set(paid) == {0.0, 1.0}
    assert (paid - means).mean() == pytest.approx(0, abs=4 * 0.5 / np.sqrt(len(paid)))


def test_regret_is_the_distance_to_the_best_arm():
    instance = world(Gap2(**SMALL))
    for step in range(5):
        means = instance.turn(step).arms @ instance.theta[0]
        for k in range(7):
            regrets = instance.pay(step, np.full(40, k)).regrets
            np.testing.assert_allclose(regrets, means.max(axis=1) - means[:, k], atol=1e-12)


def test_the_problem_says_what_may_be_known():
    problem = world(Gap(**SMALL), horizon=77).problem
    assert problem.get(Noise) == Noise(0.5)
    assert problem.get(Norms) == Norms(1.0, 1.0)
    assert problem.get(Range) == Range(0.0, 1.0)
    assert (problem.agents, problem.dim, problem.arms, problem.horizon) == (40, 6, 7, 77)


@pytest.mark.parametrize(
    ("bad", "says"), [({"gap": 0.4}, "must not exceed 1"), ({"nuisance": 0.7}, "leaves no arm of norm 1")]
)
def test_bands_that_no_arm_fits_are_refused(bad, says):
    with pytest.raises(ConfigError, match=says):
        Gap(**bad)


def test_bounded_rewards_keep_to_their_range_and_have_the_stated_noise():
    instance = world(LinearBounded(clients=50, dim=3, arms=2, noise=0.4))
    known = instance.problem.get(Range)
    assert (known.low, known.high) == pytest.approx((-1 - 0.4 * np.sqrt(3), 1 + 0.4 * np.sqrt(3)))
    noise = []
    for step in range(100):
        turn = instance.turn(step)
        noise.append(instance.pay(step, np.zeros(50, dtype=np.int64)).rewards - turn.arms[:, 0] @ instance.theta[0])
    noise = np.concatenate(noise)
    reach = 0.4 * np.sqrt(3)
    assert stats.kstest(noise, "uniform", args=(-reach, 2 * reach)).pvalue > 1e-3
    assert noise.std() == pytest.approx(0.4, rel=0.02)
