"""The theoretical ellipsoid contains theta* at all times, in at least a 1 - delta share of runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.algorithms.generalized.agents import CentredAgents
from fedbandits.testing.recording import recorded

RUNS, STEPS, N, D = 40, 60, 4, 3
DELTA = 0.1
PARAMETERS = {
    "fedglb-ucb": {"threshold": 2.0},
    "fedglb-newton": {"threshold": 2.0},
    "fedglb-ucb-1": {"updates": 12},
    "fedglb-ucb-2": {"updates": 12},
    "fedglb-ucb-3": {"updates": 12},
    "n-ons-glm": {},
}


def ellipsoids(agents):
    """Centres (n, d), matrices (n, d, d) and widths (n,) that the agents act on."""
    who = np.arange(N)
    if isinstance(agents, CentredAgents):
        return agents.theta, np.linalg.inv(agents.inverse), agents._width(agents.known)
    models = agents.models
    return models.theta, models.base.gram + models.fresh.gram + models.ridge * np.eye(D), agents.width(who)


def failures(name, scale=1.0):
    """How many runs have an agent that at some time leaves theta* outside of its ellipsoid."""
    env = fb.environments.Logistic(clients=N, dim=D, arms=5)
    algorithm = ALGORITHMS[name](delta=DELTA, scale=scale, **PARAMETERS[name])
    failed = 0
    for seed in range(RUNS):
        theta = env.world(STEPS, np.random.SeedSequence(seed).spawn(2)[0]).theta[0]
        left = False
        for event in recorded(algorithm, env, STEPS, seed):
            centre, matrix, width = ellipsoids(event.side.agents)
            gap = centre - theta
            left |= bool((np.sqrt(np.einsum("ni,nij,nj->n", gap, matrix, gap)) > width).any())
        failed += left
    return failed


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "fedglb-ucb" else pytest.mark.slow) for name in PARAMETERS]
)
def test_coverage(name):
    """Refuted only if the share of runs that ever leave the ellipsoid is significantly above delta."""
    assert binomtest(failures(name), RUNS, DELTA, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-ucb-1"])
def test_a_width_that_is_too_small_is_noticed(name):
    assert binomtest(failures(name, scale=0.05), RUNS, DELTA, alternative="greater").pvalue < 1e-6
