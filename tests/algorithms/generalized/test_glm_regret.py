"""Who beats whom on clicks: the publication's setting at a tenth of its size, paired over seeds."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS

SEEDS = 6


@pytest.fixture(scope="module")
def traces():
    env = fb.environments.Logistic(clients=20, dim=10, arms=25)
    setups = {
        "fedglb-ucb": {"scale": 0.1},
        "fedglb-newton": {"scale": 0.1},
        "fedglb-ucb-3": {"scale": 0.1, "updates": 63},
        "n-ucb-glm": {},
        "n-ons-glm": {"scale": 0.1},
    }
    return {
        name: [fb.simulate(ALGORITHMS[name](**setup), env, 200, seed) for seed in range(SEEDS)]
        for name, setup in setups.items()
    }


def regrets(traces, name):
    return np.array([trace.regret[-1] for trace in traces[name]])


def assert_below(smaller, larger):
    """The mean difference is at least five of its standard errors."""
    gap = larger - smaller
    assert gap.mean() > 5 * gap.std(ddof=1) / np.sqrt(len(gap))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n-ucb-glm", "n-ons-glm"])
def test_learning_together_at_least_halves_the_regret(traces, name):
    assert_below(2 * regrets(traces, "fedglb-ucb"), regrets(traces, name))


@pytest.mark.slow
def test_optimising_beats_global_online_steps(traces):
    assert_below(regrets(traces, "fedglb-ucb"), regrets(traces, "fedglb-ucb-3"))


def test_newton_has_the_same_regret_for_a_fraction_of_the_messages(traces):
    """Both are certified alike, so regrets differ by chance only."""
    ratio = regrets(traces, "fedglb-newton").sum() / regrets(traces, "fedglb-ucb").sum()
    assert 0.8 < ratio < 1.25
    for newton, descending in zip(traces["fedglb-newton"], traces["fedglb-ucb"], strict=True):
        assert 4 * newton.messages[-1] < descending.messages[-1]
