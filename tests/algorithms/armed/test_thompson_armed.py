"""Thompson sampling: draws against scipy's posteriors, frequencies of choices, and regret."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import fedbandits as fb
from fedbandits.algorithms.armed.kl_ucb import KLUCB
from fedbandits.algorithms.armed.thompson import ThompsonBeta, ThompsonGaussian
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Noise, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import BernoulliArms, GaussianArms, StableArms

MANY = 20_000


def population(algorithm, n, arms=3, noise=0.5, seed=0):
    problem = Problem(agents=n, dim=arms, arms=arms, horizon=100).knowing(Noise(noise), Range(0.0, 1.0))
    return algorithm.agents(problem, n, Streams(np.random.SeedSequence(seed), n))


def shown(w, arms=3):
    return np.broadcast_to(np.eye(arms), (w, arms, arms))


def choose(agents, n, arms=3):
    return agents.choose(np.arange(n), shown(n, arms))


# --- Beta


def test_each_choice_is_greedy_under_draws_from_the_beta_posteriors():
    agents = population(ThompsonBeta(), 6)
    agents.counts[:] = np.arange(18).reshape(6, 3) % 7
    agents.sums[:] = agents.counts // 2
    stream = Streams(np.random.SeedSequence(0), 6)
    rng = np.random.default_rng(0)
    for _ in range(20):
        who = np.flatnonzero(rng.random(6) < 0.7)
        wins, losses = agents.sums[who], (agents.counts - agents.sums)[who]
        drawn = stats.beta.ppf(stream.uniform(who, 3), 1 + wins, 1 + losses)
        np.testing.assert_array_equal(agents.choose(who, shown(len(who))), drawn.argmax(axis=1))


@pytest.mark.parametrize(("wins", "losses"), [((0, 0), (0, 0)), ((3, 1), (1, 2)), ((400, 390), (600, 610))])
def test_arms_are_chosen_as_often_as_they_are_best_under_the_posterior(wins, losses):
    """P(theta_1 > theta_2) by integration, over many agents with the same experience."""
    agents = population(ThompsonBeta(), MANY, arms=2)
    agents.sums[:] = wins
    agents.counts[:] = np.add(wins, losses)
    first, second = (stats.beta(1 + won, 1 + lost) for won, lost in zip(wins, losses, strict=True))
    low, high = first.ppf([1e-12, 1 - 1e-12])
    expected = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), low, high)[0]
    hits = int((choose(agents, MANY, 2) == 0).sum())
    assert stats.binomtest(hits, MANY, expected).pvalue > 1e-3


def test_clicks_are_counted_as_they_are():
    agents = population(ThompsonBeta(), 4)
    for reward in (1.0, 0.0, 1.0):
        agents.learn(np.array([1, 3]), shown(2), np.array([0, 2]), np.array([reward, 1 - reward]))
    np.testing.assert_array_equal(agents.counts, [[0, 0, 0], [3, 0, 0], [0, 0, 0], [0, 0, 3]])
    np.testing.assert_array_equal(agents.sums, [[0, 0, 0], [2, 0, 0], [0, 0, 0], [0, 0, 1]])


def test_other_rewards_win_as_often_as_they_are_large():
    agents = population(ThompsonBeta(), MANY)
    agents.learn(np.arange(MANY), shown(MANY), np.ones(MANY, dtype=np.int64), np.full(MANY, 0.3))
    assert set(np.unique(agents.sums[:, 1])) == {0.0, 1.0}
    assert stats.binomtest(int(agents.sums[:, 1].sum()), MANY, 0.3).pvalue > 1e-3


def test_much_experience_leaves_finite_draws():
    """A million pulls, all won, all lost, or mixed."""
    agents = population(ThompsonBeta(), MANY, arms=3)
    agents.counts[:] = 10**6
    agents.sums[:] = [0, 10**6, 5 * 10**5]
    assert (choose(agents, MANY) == 1).all()


@pytest.mark.parametrize(
    "environment",
    [GaussianArms(clients=2), StableArms(clients=2), BernoulliArms(clients=2, contamination=0.1)],
    ids=repr,
)
def test_rewards_beyond_the_unit_interval_are_refused(environment):
    with pytest.raises(ConfigError, match=r"thompson-beta: rewards must lie in \[0, 1\].*thompson-gaussian"):
        fb.simulate(ThompsonBeta(), environment, 10)


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_a_reward_outside_is_refused_and_changes_nothing(reward):
    agents = population(ThompsonBeta(), 2)
    before = agents.state()
    with pytest.raises(ValueError, match=r"agents \[1\]"):
        agents.learn(np.arange(2), shown(2), np.array([0, 1]), np.array([0.5, reward]))
    for name, array in agents.state().items():
        np.testing.assert_array_equal(array, before[name])


# --- Gaussian


def test_every_arm_is_taken_once_first_in_order():
    agents = population(ThompsonGaussian(), 3)
    for turn in range(3):
        picks = choose(agents, 3)
        np.testing.assert_array_equal(picks, turn)
        agents.learn(np.arange(3), shown(3), picks, np.array([-5.0, 0.0, 100.0]))


def test_each_choice_is_greedy_under_draws_from_the_gaussian_posteriors():
    agents = population(ThompsonGaussian(), 6, noise=0.7)
    rng = np.random.default_rng(1)
    agents.counts[:] = rng.integers(1, 9, (6, 3))
    agents.sums[:] = rng.standard_normal((6, 3))
    stream = Streams(np.random.SeedSequence(0), 6)
    for _ in range(20):
        who = np.flatnonzero(rng.random(6) < 0.7)
        counts = agents.counts[who]
        posterior = stats.norm(agents.sums[who] / counts, 0.7 / np.sqrt(counts))
        drawn = posterior.ppf(stream.uniform(who, 3))
        np.testing.assert_array_equal(agents.choose(who, shown(len(who))), drawn.argmax(axis=1))


@pytest.mark.parametrize("noise", [None, 0.2])
def test_gaussian_arms_are_chosen_as_often_as_they_are_best_under_the_posterior(noise):
    """P = Phi((m_1 - m_2) / (noise sqrt(1/n_1 + 1/n_2))); the noise is the problem's unless given."""
    agents = population(ThompsonGaussian(noise=noise), MANY, arms=2, noise=0.5)
    agents.counts[:] = [4, 9]
    agents.sums[:] = [4 * 0.5, 9 * 0.4]
    expected = stats.norm.cdf(0.1 / ((noise or 0.5) * math.sqrt(1 / 4 + 1 / 9)))
    hits = int((choose(agents, MANY, 2) == 0).sum())
    assert stats.binomtest(hits, MANY, expected).pvalue > 1e-3


# --- both


@pytest.mark.parametrize("algorithm", [ThompsonBeta(), ThompsonGaussian()], ids=lambda a: a.about.name)
def test_an_agent_chooses_alone_as_it_does_among_many(algorithm):
    """To the last bit of its draws: the same choices over many turns, and the same state."""
    n, arms = 5, 4
    problem = Problem(agents=n, dim=arms, arms=arms, horizon=100).knowing(Noise(0.5), Range(0.0, 1.0))
    seed = np.random.SeedSequence(3)
    together = algorithm.agents(problem, n, Streams(seed, n))
    apart = [algorithm.agents(problem, 1, Streams(seed, identities=np.array([i]))) for i in range(n)]
    rng = np.random.default_rng(0)
    only = np.array([0])
    for _ in range(60):
        who = np.flatnonzero(rng.random(n) < 0.7)
        picks = together.choose(who, shown(len(who), arms))
        rewards = rng.random(len(who))
        together.learn(who, shown(len(who), arms), picks, rewards)
        for agent, pick, reward in zip(who, picks, rewards, strict=True):
            assert apart[agent].choose(only, shown(1, arms)) == [pick]
            apart[agent].learn(only, shown(1, arms), np.array([pick]), np.array([reward]))
    for i, one in enumerate(apart):
        for name, array in together.share(i).items():
            np.testing.assert_array_equal(array, one.state()[name])


@pytest.mark.parametrize(
    ("algorithm", "environment", "bound"),
    [
        (
            ThompsonBeta(),
            BernoulliArms(clients=60, arms=4, means=[0.6, 0.4, 0.35, 0.2]),
            sum((0.6 - mu) / stats.entropy([mu, 1 - mu], [0.6, 0.4]) for mu in (0.4, 0.35, 0.2)),
        ),
        (
            ThompsonGaussian(),
            GaussianArms(clients=60, arms=4, means=[0.9, 0.4, 0.4, 0.0], noise=0.5),
            sum(2 * 0.5**2 / (0.9 - mu) for mu in (0.4, 0.4, 0.0)),
        ),
    ],
    ids=["beta", "gaussian"],
)
def test_regret_is_sublinear_and_near_what_is_possible(algorithm, environment, bound):
    """Each agent's regret over 2000 turns, against the lower bound's leading term and against chance."""
    horizon = 2000
    trace = fb.simulate(algorithm, environment, horizon, seed=1)
    regret = trace.regret / 60
    means = np.array(environment.means)
    assert regret[-1] < 0.1 * (means.max() - means.mean()) * horizon
    assert bound * math.log(horizon) / 2 < regret[-1] < 2 * bound * math.log(horizon)
    assert regret[-1] - regret[horizon // 2] < regret[horizon // 2] / 3


@pytest.mark.slow
def test_sampling_beats_optimism_with_its_full_width_and_both_beat_chance():
    """Paired over seeds: every difference is at least five of its standard errors."""
    env = BernoulliArms(clients=10, arms=5)
    sampling, optimism, chance = (
        np.array([fb.simulate(algorithm, env, 500, seed).regret[-1] for seed in range(10)])
        for algorithm in (ThompsonBeta(), KLUCB(), fb.algorithms.Random())
    )
    for smaller, larger in ((sampling, optimism), (optimism, chance)):
        gap = larger - smaller
        assert gap.mean() > 5 * gap.std(ddof=1) / math.sqrt(len(gap))
