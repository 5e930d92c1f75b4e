"""Clicks and counts: means, laws, common random numbers, and regret in units of the mean reward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from fedbandits.contract.facts import Link, Noise, Norms
from fedbandits.environments import Logistic, PoissonCounts, Probit
from fedbandits.environments.laws import Bernoulli, Gaussian, Poisson, law_of

KINDS = {"logistic": (Logistic, expit), "probit": (Probit, stats.norm.cdf), "poisson": (PoissonCounts, np.exp)}
every_kind = pytest.mark.parametrize("kind", KINDS)
SMALL = {"clients": 6, "dim": 4, "arms": 5}


def world(env, horizon=200, seed=0):
    return env.world(horizon, np.random.SeedSequence(seed))


@every_kind
def test_the_problem_says_what_may_be_known(kind):
    problem = world(KINDS[kind][0](**SMALL)).problem
    assert problem.get(Link) == Link(kind)
    assert problem.get(Norms) == Norms(1.0, 1.0)
    assert problem.get(Noise) == Noise(2.0 if kind == "poisson" else 0.5)


def test_the_publications_size_is_the_default():
    problem = world(Logistic()).problem
    assert (problem.agents, problem.dim, problem.arms) == (200, 10, 25)


@every_kind
@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
def test_regret_and_chance_are_in_mean_rewards(kind, schedule):
    make, mu = KINDS[kind]
    instance = world(make(**SMALL, schedule=schedule))
    np.testing.assert_allclose(np.linalg.norm(instance.theta, axis=1), 1)
    rng = np.random.default_rng(0)
    for step in range(30):
        turn = instance.turn(step)
        picks = rng.integers(0, 5, len(turn.who))
        means = mu(turn.arms @ instance.theta[0])
        outcome = instance.pay(step, picks)
        chosen = means[np.arange(len(picks)), picks]
        np.testing.assert_allclose(outcome.regrets, means.max(axis=1) - chosen, atol=1e-14)
        np.testing.assert_allclose(outcome.chance, means.mean(axis=1))


@every_kind
def test_rewards_follow_their_means(kind):
    """Standardised by mean and variance, rewards of random choices average to nothing and scatter by one."""
    make, mu = KINDS[kind]
    instance = world(make(clients=50, dim=4, arms=5), horizon=400)
    means, rewards = [], []
    for step in range(400):
        turn = instance.turn(step)
        picks = np.full(50, step % 5)
        means.append(mu(turn.arms[:, step % 5] @ instance.theta[0]))
        rewards.append(instance.pay(step, picks).rewards)
    p, y = np.concatenate(means), np.concatenate(rewards)
    variance = p if kind == "poisson" else p * (1 - p)
    residual = (y - p) / np.sqrt(variance)
    assert abs(residual.mean()) < 4 / np.sqrt(len(y))
    assert abs(np.corrcoef(residual, p)[0, 1]) < 4 / np.sqrt(len(y))
    assert abs((residual**2).mean() - 1) < 4 * (residual**2).std() / np.sqrt(len(y))


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("score", [-2.0, 0.0, 0.7])
def test_clicks_are_bernoulli(link, score):
    law = Bernoulli(link)
    draws = 20_000
    mean = law.means(np.full(draws, score))
    clicks = law.rewards(mean, law.shocks(np.random.default_rng(1), (draws,)))
    assert set(np.unique(clicks)) == {0.0, 1.0}
    assert stats.binomtest(int(clicks.sum()), draws, float(mean[0])).pvalue > 1e-4


@pytest.mark.parametrize("score", [-1.0, 0.0, 1.0])
def test_counts_are_poisson(score):
    law, draws = Poisson(), 20_000
    mean = law.means(np.full(draws, score))
    counts = law.rewards(mean, law.shocks(np.random.default_rng(1), (draws,)))
    top = 8
    observed = np.bincount(np.minimum(counts, top).astype(int), minlength=top + 1)
    expected = draws * np.append(stats.poisson.pmf(np.arange(top), mean[0]), stats.poisson.sf(top - 1, mean[0]))
    while expected[-1] < 5:
        observed, expected = (np.append(part[:-2], part[-2:].sum()) for part in (observed, expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@given(low=st.floats(-2, 2), high=st.floats(-2, 2), seed=st.integers(0, 10**6))
@pytest.mark.parametrize("law", [Bernoulli("logistic"), Bernoulli("probit"), Poisson(), Gaussian(0.3)], ids=repr)
def test_a_better_arm_never_earns_less_from_the_same_shock(law, low, high, seed):
    low, high = sorted((low, high))
    shocks = law.shocks(np.random.default_rng(seed), (40,))
    earned = [law.rewards(law.means(np.full(40, score)), shocks) for score in (low, high)]
    assert (earned[0] <= earned[1]).all()


@every_kind
def test_the_same_choice_is_rewarded_alike_whoever_makes_it(kind):
    """Under one seed, however the rest of the run went; another seed pays differently."""
    env = KINDS[kind][0](**SMALL)
    one, two, other = world(env), world(env), world(env, seed=1)
    rng = np.random.default_rng(0)
    different = 0
    for step in range(100):
        mine, theirs = rng.integers(0, 5, (2, 6))
        np.testing.assert_array_equal(one.turn(step).arms, two.turn(step).arms)
        first, second = one.pay(step, mine).rewards, two.pay(step, theirs).rewards
        np.testing.assert_array_equal(first[mine == theirs], second[mine == theirs])
        np.testing.assert_array_equal(one.pay(step, mine).rewards, first)
        different += (other.pay(step, mine).rewards != first).sum()
    assert different > 50


@pytest.mark.parametrize("pool", [None, 40])
def test_biased_arms_end_with_a_constant(pool):
    instance = world(Logistic(**SMALL, spread="biased", pool=pool))
    assert instance.problem.get(Norms).arms == pytest.approx(np.sqrt(2))
    for step in range(20):
        arms = instance.turn(step).arms
        np.testing.assert_allclose(np.linalg.norm(arms, axis=2), np.sqrt(2), rtol=1e-12)
        np.testing.assert_array_equal(arms[..., -1], 1.0)


def test_arms_on_the_sphere_have_norm_one():
    np.testing.assert_allclose(np.linalg.norm(world(Logistic(**SMALL)).turn(3).arms, axis=2), 1, rtol=1e-12)


def test_the_law_of_a_link():
    assert law_of("identity", 0.2) == Gaussian(0.2)
    assert law_of("poisson", 0.2) == Poisson()
    assert law_of("probit", 0.2) == Bernoulli("probit")
