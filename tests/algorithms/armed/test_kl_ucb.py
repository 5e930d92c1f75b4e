"""KL-UCB: the index against root finding, choices against a plain reference, and regret."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr

import fedbandits as fb
from fedbandits.algorithms.armed.kl_ucb import KLUCB, highest_plausible
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import BernoulliArms, GaussianArms, HardHeavyTailed


def divergence(p, q):
    return rel_entr(p, q) + rel_entr(1 - p, 1 - q)


def reference(mean, level):
    """The index by bracketing."""
    top = 1 - 1e-16
    if mean >= 1 or divergence(mean, top) <= level:
        return 1.0
    return brentq(lambda q: divergence(mean, q) - level, mean, top, xtol=1e-15, rtol=1e-14)


@given(mean=st.floats(0, 1), level=st.floats(1e-6, 50))
def test_the_index_solves_its_equation(mean, level):
    found = highest_plausible(mean, level)
    assert mean <= found <= 1
    assert found == pytest.approx(reference(mean, level), abs=1e-9)


@given(count=st.integers(1, 10**6), share=st.floats(0, 1), turn=st.integers(2, 10**7))
def test_the_index_on_what_agents_meet(count, share, turn):
    mean, level = round(share * count) / count, math.log(turn) / count
    found = highest_plausible(mean, level)
    assert found == pytest.approx(reference(mean, level), abs=1e-9)
    if 1e-3 < found < 1 - 1e-3 and found - mean > 1e-4:
        assert divergence(mean, found) == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize("level", [1e-9, 0.01, 0.5, 3.0, 30.0])
def test_the_index_by_hand(level):
    assert highest_plausible(0.0, level) == pytest.approx(-math.expm1(-level), rel=1e-7)
    assert highest_plausible(0.5, level) == pytest.approx((1 + math.sqrt(-math.expm1(-2 * level))) / 2, rel=1e-9)
    assert highest_plausible(1.0, level) == 1.0
    assert highest_plausible(0.3, 0.0) == 0.3


def population(n, arms=3, c=3.0):
    problem = Problem(agents=n, dim=arms, arms=arms, horizon=100).knowing(Range(0.0, 1.0))
    return KLUCB(c=c).agents(problem, n, Streams(np.random.SeedSequence(0), n))


def shown(w, arms=3):
    return np.broadcast_to(np.eye(arms), (w, arms, arms))


@pytest.mark.parametrize("c", [0.0, 3.0])
def test_choices_follow_the_definition(c):
    """Random agents awake, rewards in [0, 1]; every choice against the index computed from the history."""
    agents = population(5, arms=4, c=c)
    rng = np.random.default_rng(0)
    history = [[[] for _ in range(4)] for _ in range(5)]
    for _ in range(120):
        who = np.flatnonzero(rng.random(5) < 0.6)
        picks = agents.choose(who, shown(len(who), 4))
        for agent, pick in zip(who, picks, strict=True):
            own = history[agent]
            unseen = [k for k in range(4) if not own[k]]
            if unseen:
                assert pick == unseen[0]
                continue
            turn = sum(map(len, own)) + 1
            demand = math.log(turn) + c * math.log(max(math.log(turn), 1))
            index = [reference(np.mean(seen), demand / len(seen)) for seen in own]
            assert index[pick] == pytest.approx(max(index), abs=1e-9)
        rewards = np.where(rng.random(len(who)) < 0.5, rng.random(len(who)), np.round(rng.random(len(who))))
        for agent, pick, reward in zip(who, picks, rewards, strict=True):
            history[agent][pick].append(reward)
        agents.learn(who, shown(len(who), 4), picks, rewards)


def test_ties_go_to_the_lowest_index():
    agents = population(1)
    for k in (2, 1, 0):
        agents.learn(np.array([0]), shown(1), np.array([k]), np.array([1.0]))
    assert agents.choose(np.array([0]), shown(1)) == [0]


def test_a_rare_arm_is_tried_again_in_time():
    """An arm lost once has index 1 - exp(-log t) = 1 - 1/t (c = 0): below that of an arm always won, above 1/2."""
    agents = population(1, arms=2, c=0.0)
    agents.learn(np.array([0]), shown(1, 2), np.array([0]), np.array([0.0]))
    for _ in range(50):
        agents.learn(np.array([0]), shown(1, 2), np.array([1]), np.array([1.0]))
        assert agents.choose(np.array([0]), shown(1, 2)) == [1]
    agents.sums[0, 1], agents.counts[0, 1] = 500, 1000
    assert reference(0.5, math.log(1002) / 1000) < 1 - 1 / 1002
    assert agents.choose(np.array([0]), shown(1, 2)) == [0]


@pytest.mark.parametrize(
    "environment",
    [GaussianArms(clients=2), HardHeavyTailed(clients=2), BernoulliArms(clients=2, contamination=0.1, outlier=5.0)],
    ids=["gaussian", "heavy tails", "outliers"],
)
def test_rewards_beyond_the_unit_interval_are_refused(environment):
    with pytest.raises(ConfigError, match=r"kl-ucb: rewards must lie in \[0, 1\].*bernoulli"):
        fb.simulate(KLUCB(), environment, 10)


def test_outliers_within_the_unit_interval_are_fine():
    fb.simulate(KLUCB(), BernoulliArms(clients=2, contamination=0.1, outlier=1.0), 10)


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_a_reward_outside_is_refused_and_changes_nothing(reward):
    agents = population(2)
    with pytest.raises(ValueError, match=r"agents \[1\]"):
        agents.learn(np.arange(2), shown(2), np.array([0, 1]), np.array([0.5, reward]))
    assert not agents.counts.any()
    assert not agents.sums.any()


@pytest.mark.slow
def test_regret_is_sublinear_and_near_what_is_possible():
    """Each agent's regret over 4000 turns: far below chance, most of it early; c = 0 within twice the lower bound."""
    env = BernoulliArms(clients=60, arms=4, means=[0.6, 0.4, 0.35, 0.2])
    horizon = 4000
    theory, practice = (fb.simulate(KLUCB(c=c), env, horizon, seed=1).regret / 60 for c in (3.0, 0.0))
    bound = sum((0.6 - mu) / divergence(mu, 0.6) for mu in (0.4, 0.35, 0.2)) * math.log(horizon)
    chance = (0.6 - np.mean([0.6, 0.4, 0.35, 0.2])) * horizon
    assert practice[-1] < theory[-1] < 0.15 * chance
    assert bound / 2 < practice[-1] < 2 * bound
    for regret in (theory, practice):
        assert regret[-1] - regret[horizon // 2] < regret[horizon // 2] / 3
