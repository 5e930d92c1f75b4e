"""Who beats whom, paired over seeds: every difference is at least five of its standard errors."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import (
    AsyncLinUCB,
    AsyncLinUCBAM,
    CentralLinUCB,
    DisLinUCB,
    FedLinUCBAsync,
    IndependentLinTS,
    IndependentLinUCB,
    Random,
)

SEEDS = 8


def regrets(algorithm, env, horizon):
    return np.array([fb.simulate(algorithm, env, horizon, seed).regret[-1] for seed in range(SEEDS)])


def assert_below(smaller, larger):
    gap = larger - smaller
    assert gap.mean() > 5 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_a_shared_parameter_rewards_sharing():
    env = fb.environments.Linear(clients=8, dim=6, arms=8)
    central, dis, alone, thompson, chance = (
        regrets(algorithm, env, 200)
        for algorithm in (
            CentralLinUCB(),
            DisLinUCB(threshold=2.0),
            IndependentLinUCB(),
            IndependentLinTS(),
            Random(),
        )
    )
    assert_below(central, dis)
    assert_below(dis, alone)
    assert_below(alone, chance)
    assert_below(thompson, chance)


@pytest.mark.slow
def test_asynchronous_sharing_pays_when_one_agent_is_awake_at_a_time():
    env = fb.environments.Linear(clients=8, dim=6, arms=8, schedule="random")
    alone = regrets(IndependentLinUCB(), env, 1600)
    assert_below(regrets(AsyncLinUCB(gamma_up=1.5, gamma_down=1.5), env, 1600), alone)
    assert_below(regrets(FedLinUCBAsync(), env, 1600), alone)


def test_a_partly_shared_parameter_rewards_sharing_that_part():
    """Pooling parameters that differ is worse than not sharing at all; pooling what is common is better."""
    env = fb.environments.LinearShared(clients=20, dim=8, arms=8, shared=6)
    gammas = {"gamma_up": 1.5, "gamma_down": 1.5, "width": 0.3}
    partly = regrets(AsyncLinUCBAM(**gammas), env, 300)
    wholly = regrets(AsyncLinUCB(**gammas), env, 300)
    alone = regrets(IndependentLinUCB(width=0.3), env, 300)
    assert_below(partly, alone)
    assert_below(alone, wholly)


def test_more_talk_means_less_regret():
    env = fb.environments.Linear(clients=8, dim=6, arms=8)
    often, seldom = DisLinUCB(threshold=0.5), DisLinUCB(threshold=20.0)
    assert_below(regrets(often, env, 200), regrets(seldom, env, 200))
    assert fb.simulate(often, env, 200).scalars[-1] > 2 * fb.simulate(seldom, env, 200).scalars[-1]
