"""K-armed environments: what a seed fixes, what is shown, what is paid, and what may be known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedbandits.contract.catalogue import ConfigError, build
from fedbandits.contract.facts import Contamination, Moment, Noise, Norms, Range
from fedbandits.environments import ENVIRONMENTS, BernoulliArms, GaussianArms, StableArms
from fedbandits.environments import linear as blocks
from fedbandits.environments.arms import FixedArms

NAMES = ["bernoulli", "gaussian", "stable", "hard-heavy-tailed", "hard-contaminated", "hard-minimax"]
SMALL = {"clients": 6, "arms": 4}
every_name = pytest.mark.parametrize("name", NAMES)


def world(name, seed=0, horizon=200, **parameters):
    environment = build(ENVIRONMENTS, name, SMALL | parameters, "environment")
    return environment.world(horizon, np.random.SeedSequence(seed))


def paid(instance, arm, steps=400):
    """Everything everybody earns with one arm."""
    return np.concatenate(
        [instance.pay(step, np.full(len(instance.turn(step).who), arm)).rewards for step in range(steps)]
    )


# --- what is shown


@every_name
@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
def test_arms_are_the_unit_vectors_and_nothing_is_copied(name, schedule):
    instance = world(name, schedule=schedule)
    for step in range(10):
        turn = instance.turn(step)
        assert turn.arms.shape == (len(turn.who), 4, 4)
        np.testing.assert_array_equal(turn.arms, np.broadcast_to(np.eye(4), turn.arms.shape))
        assert not turn.arms.flags.writeable
        assert np.shares_memory(turn.arms, instance.turn(step + 1).arms)
    problem = instance.problem
    assert (problem.agents, problem.arms, problem.dim, problem.get(Norms).arms) == (6, 4, 4, 1.0)
    assert np.linalg.norm(instance.means) <= problem.get(Norms).parameter
    np.testing.assert_array_equal(instance.mean_rewards(), instance.means)


def test_stragglers_see_the_same_row_too():
    instance = world("bernoulli", clients=40, stragglers=0.5, presence=0.3)
    there = np.zeros(40)
    for step in range(200):
        turn = instance.turn(step)
        np.testing.assert_array_equal(np.flatnonzero(turn.reachable), turn.who)
        np.testing.assert_array_equal(turn.arms, np.broadcast_to(np.eye(4), turn.arms.shape))
        assert turn.arms.strides[0] == 0
        outcome = instance.pay(step, np.full(len(turn.who), step % 4))
        assert outcome.rewards.shape == turn.who.shape
        np.testing.assert_array_equal(outcome.regrets, instance.means.max() - instance.means[step % 4])
        there[turn.who] += 1
    assert (there == 200).sum() == 20
    late = there[there < 200]
    assert stats.binomtest(int(late.sum()), 20 * 200, 0.3).pvalue > 1e-4


@every_name
def test_a_world_is_a_function_of_its_seed(name):
    one, two, other = world(name), world(name), world(name, seed=1)
    np.testing.assert_array_equal(one.means, two.means)
    picks = np.arange(6) % 4
    different = 0
    for step in range(60):
        np.testing.assert_array_equal(one.pay(step, picks).rewards, two.pay(step, picks).rewards)
        different += (one.pay(step, picks).rewards != other.pay(step, picks).rewards).sum()
    assert different > 0


@every_name
def test_the_same_choice_is_rewarded_alike_whoever_makes_it(name):
    one, two = world(name), world(name)
    rng = np.random.default_rng(0)
    for step in range(100):
        mine, theirs = rng.integers(0, 4, (2, 6))
        first, second = one.pay(step, mine).rewards, two.pay(step, theirs).rewards
        np.testing.assert_array_equal(first[mine == theirs], second[mine == theirs])


@settings(max_examples=15)
@given(steps=st.lists(st.integers(0, 60), min_size=1, max_size=12))
@pytest.mark.parametrize(
    "more", [{}, {"schedule": "random"}, {"contamination": 0.3, "stragglers": 0.5, "presence": 0.5}], ids=str
)
def test_steps_can_be_visited_in_any_order(more, steps):
    """Over several blocks, forwards, backwards and twice."""
    block, blocks._BLOCK = blocks._BLOCK, 30  # five steps of all agents
    try:
        straight, jumping = world("stable", **more), world("stable", **more)
        kept = []
        for step in range(61):
            who = straight.turn(step).who.copy()
            kept.append((who, straight.pay(step, np.zeros(len(who), dtype=np.int64)).rewards))
        for step in steps:
            who = jumping.turn(step).who
            np.testing.assert_array_equal(who, kept[step][0])
            found = jumping.pay(step, np.zeros(len(who), dtype=np.int64)).rewards
            np.testing.assert_array_equal(found, kept[step][1])
    finally:
        blocks._BLOCK = block


def test_blocks_are_cut_by_decisions_not_by_arms():
    """10^4 agents with 100 arms: a block is as long as with two, and holds no array of its size times the arms."""
    instance = world("bernoulli", clients=10_000, arms=100)
    instance.turn(0)
    assert instance._steps == 2**18 // 10_000
    for array in (instance._drawn.lanes, instance._drawn.means):
        assert array.strides[:2] == (0, 0)


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
def test_blocks_of_a_large_population_with_stragglers_stay_small(schedule):
    """One agent decides at a time, but whether each of 1000 is there is drawn in every step."""
    instance = world("bernoulli", clients=1000, schedule=schedule, stragglers=0.5)
    instance.turn(0)
    assert max(instance._drawn.there.size, instance._drawn.shocks.size) <= 2**18


def test_fixed_arms_with_parameters_of_ones_own():
    """(n, K) means, should agents differ."""
    theta = np.arange(6.0).reshape(3, 2)
    who = np.array([[0, 2], [1, 0]])
    lanes, scores = FixedArms(2).draw(who, theta, np.random.default_rng(0))
    np.testing.assert_array_equal(lanes, np.broadcast_to(np.eye(2), (2, 2, 2, 2)))
    np.testing.assert_array_equal(scores, theta[who])


# --- means


def test_uniform_means_are_drawn_for_each_seed():
    drawn = np.concatenate([world("bernoulli", seed=seed).means for seed in range(300)])
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"means": [0.9, 0.1, 0.5, 0.4]}, [0.1, 0.4, 0.5, 0.9]), ({"best": 1, "rest": 0.5}, [0.5, 0.5, 0.5, 1.0])],
    ids=["means", "best and rest"],
)
@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "stable"])
def test_given_means_are_shuffled(name, given, expected):
    places = []
    for seed in range(200):
        means = world(name, seed=seed, **given).means
        np.testing.assert_array_equal(np.sort(means), expected)
        places.append(means.argmax())
    assert stats.chisquare(np.bincount(places, minlength=4)).pvalue > 1e-3


def test_means_can_be_given_as_a_list_or_by_two_numbers():
    """As files give them, and as one can write them on the command line."""
    assert BernoulliArms(arms=2, means=[0.5, 1]) == BernoulliArms(arms=2, means=(0.5, 1.0))
    assert sorted(world("gaussian", arms=10, best=1, rest=0.5).means) == [0.5] * 9 + [1.0]


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"means": [0.1, 0.2]}, "set arms=2"),
        ({"means": "random"}, "'uniform' or a list"),
        ({"means": [0.1, "a", 0.2, 0.3]}, "list of finite numbers"),
        ({"means": [0.1, math.nan, 0.2, 0.3]}, "list of finite numbers"),
        ({"means": [0.1, 1.2, 0.2, 0.3]}, "between 0 and 1"),
        ({"best": 0.9}, "belong together"),
        ({"rest": 0.9}, "belong together"),
        ({"best": 0.2, "rest": 0.4}, "exchange"),
        ({"best": 1.5, "rest": 0.4}, "between 0 and 1"),
        ({"best": 0.5, "rest": 0.4, "means": [0.1, 0.2, 0.2, 0.3]}, "twice"),
        ({"contamination": 0.5}, "contamination"),
        ({"outliers": "huge"}, "outliers"),
        ({"outlier": math.inf}, "outlier"),
        ({"arms": 0}, "arms"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, complaint):
    with pytest.raises(ConfigError, match=complaint):
        world("bernoulli", **parameters)


@pytest.mark.parametrize(
    "parameters", [{"alpha": 1.0}, {"alpha": 2.1}, {"alpha": 1.5, "order": 1.5}, {"order": 1.0}, {"scale": 0}]
)
def test_tails_without_a_moment_are_refused(parameters):
    with pytest.raises(ConfigError, match=r"alpha|order|scale"):
        world("stable", **parameters)


# --- what is paid


@pytest.mark.parametrize("arm", range(4))
def test_clicks_are_bernoulli(arm):
    instance = world("bernoulli", clients=50)
    clicks = paid(instance, arm)
    assert set(np.unique(clicks)) <= {0.0, 1.0}
    assert stats.binomtest(int(clicks.sum()), len(clicks), instance.means[arm]).pvalue > 1e-4


def test_gaussian_rewards():
    instance = world("gaussian", clients=50, noise=0.3)
    assert stats.kstest((paid(instance, 2) - instance.means[2]) / 0.3, "norm").pvalue > 1e-3


def test_stable_rewards():
    instance = world("stable", clients=50, alpha=1.7, scale=0.5)
    noise = (paid(instance, 1) - instance.means[1]) / 0.5
    for t in (0.5, 1.0):
        found = np.cos(t * noise)
        assert abs(found.mean() - math.exp(-(t**1.7))) < 4 * found.std() / math.sqrt(len(noise))


def test_noise_differs_between_agents_and_steps():
    noise = np.stack([world("gaussian").pay(step, np.zeros(6, dtype=np.int64)).rewards for step in range(50)])
    assert np.unique(noise).size == noise.size


@every_name
def test_regret_and_chance_are_those_of_clean_means(name):
    more = {"contamination": 0.4} if name in ("bernoulli", "gaussian", "stable") else {}
    instance = world(name, **more)
    means = instance.means
    for step in range(5):
        for arm in range(4):
            outcome = instance.pay(step, np.full(6, arm))
            np.testing.assert_allclose(outcome.regrets, means.max() - means[arm], atol=1e-15)
            np.testing.assert_allclose(outcome.chance, means.mean())


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "stable"])
def test_contamination_strikes_at_its_rate_and_leaves_the_rest(name):
    clean, dirty = world(name, clients=50), world(name, clients=50, contamination=0.2, outlier=123.0)
    np.testing.assert_array_equal(clean.means, dirty.means)
    before, after = paid(clean, 0), paid(dirty, 0)
    hit = after == 123.0
    np.testing.assert_array_equal(before[~hit], after[~hit])
    assert stats.binomtest(int(hit.sum()), len(hit), 0.2).pvalue > 1e-4


def test_contamination_does_not_change_who_is_there():
    away = {"stragglers": 0.5, "presence": 0.5}
    clean, dirty = world("gaussian", **away), world("gaussian", contamination=0.3, outliers="cauchy", **away)
    for step in range(50):
        np.testing.assert_array_equal(clean.turn(step).who, dirty.turn(step).who)


# --- what may be known


def test_what_is_known_of_clicks():
    problem = world("bernoulli").problem
    assert set(problem.facts) == {Noise(0.5), Range(0.0, 1.0), Contamination(0.0), Norms(parameter=2.0, arms=1.0)}


@pytest.mark.parametrize(
    ("outliers", "outlier", "expected"),
    [
        ("constant", 1.0, Range(0.0, 1.0)),
        ("constant", 0.0, Range(0.0, 1.0)),
        ("constant", 10.0, Range(0.0, 10.0)),
        ("constant", -2.0, Range(-2.0, 1.0)),
        ("gaussian", 0.1, None),
        ("cauchy", 0.1, None),
    ],
)
def test_the_range_covers_everything_observed(outliers, outlier, expected):
    instance = world("bernoulli", clients=50, contamination=0.2, outliers=outliers, outlier=outlier)
    assert instance.problem.get(Range) == expected
    assert instance.problem.get(Contamination) == Contamination(0.2)
    seen = paid(instance, 0, steps=50)
    assert expected is None or (expected.low <= seen.min() and seen.max() <= expected.high)
    # told to be in range just because nobody is hit: not a claim about contamination
    assert world("bernoulli", outliers=outliers, outlier=outlier).problem.get(Range) == Range(0.0, 1.0)


def test_what_is_known_of_gaussian_rewards():
    problem = world("gaussian", noise=0.7, means=[3.0, -5.0, 1.0, 0.0]).problem
    assert (problem.get(Noise), problem.get(Range), problem.get(Moment)) == (Noise(0.7), None, None)
    assert problem.get(Norms).parameter == 10.0  # |mu_k| <= 5 for each of four


def test_the_publications_sizes_are_the_defaults():
    assert (BernoulliArms().clients, BernoulliArms().arms) == (200, 5)
    assert (GaussianArms().clients, GaussianArms().arms, GaussianArms().noise) == (50, 10, 1.0)
    assert (StableArms().clients, StableArms().arms, StableArms().alpha) == (200, 5, 1.9)


def test_the_moment_of_stable_rewards_by_hand():
    moment = StableArms().moment
    assert moment.order == pytest.approx(1.8)
    assert moment.central == pytest.approx(3.385, abs=5e-4)
    assert moment.raw == pytest.approx(1 + moment.central)
    assert world("stable").problem.get(Moment) == moment
    assert StableArms(alpha=2.0).moment.plain() == pytest.approx({"order": 2.0, "raw": 3.0, "central": 2.0})
    assert StableArms(scale=3.0).moment.central == pytest.approx(3**1.8 * moment.central)
    assert StableArms(order=1.1).moment.central == pytest.approx(1.259, abs=5e-4)
    assert StableArms(means=[4.0, 0, 0, 0, 0]).moment.raw == pytest.approx(4**1.8 + moment.central)


@given(alpha=st.floats(1.05, 2.0), scale=st.floats(0.1, 5.0))
def test_the_default_order_is_below_alpha_and_the_bound_below_minkowskis(alpha, scale):
    moment = StableArms(alpha=alpha, scale=scale).moment
    assert 1 < moment.order <= alpha
    assert moment.order < alpha or alpha == 2
    assert 0 < moment.central < moment.raw
    assert moment.raw <= (1 + moment.central ** (1 / moment.order)) ** moment.order * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("alpha", "order"), [(1.5, 1.2), (1.9, 1.5)])
def test_the_raw_moment_bounds_that_of_every_mean(alpha, order, mean):
    """E|mu + Z|^p up to |x| = 50 by integration of scipy's density; beyond, by the leading term of its tail."""
    density = stats.levy_stable(alpha, 0.0).pdf
    inner = integrate.quad(lambda z: abs(mean + z) ** order * density(z), -50, 50, limit=300, epsabs=1e-6)[0]
    tail = alpha * math.gamma(alpha) * math.sin(math.pi * alpha / 2) / math.pi
    outer = 2 * tail * 50 ** (order - alpha) / (alpha - order)
    moment = StableArms(alpha=alpha, order=order).moment
    assert inner + outer <= moment.raw * (1 + 1e-3)
    if mean == 0:
        assert inner + outer == pytest.approx(moment.central, rel=2e-3)
