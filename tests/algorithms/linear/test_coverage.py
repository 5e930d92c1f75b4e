"""The theoretical ellipsoid contains theta* at all times, in at least a 1 - delta share of runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import fedbandits as fb
from fedbandits.contract.facts import Noise
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments.linear import unit_rows
from fedbandits.models.width import widths

RUNS, STEPS, D, K = 4000, 60, 3, 4


def share_of_failures(rule, noise, delta, ridge, rng):
    """Every agent of an independent population is one run, with a parameter, arms and noise of its own."""
    problem = Problem(agents=RUNS, dim=D, arms=K, horizon=STEPS, facts=(Noise(noise),))
    algorithm = fb.algorithms.IndependentLinUCB(width=rule, delta=delta, ridge=ridge)
    agents = algorithm.agents(problem, RUNS, Streams(np.random.SeedSequence(0), RUNS))
    theta = unit_rows(rng, RUNS, D)
    who = np.arange(RUNS)
    failed = np.zeros(RUNS, dtype=bool)
    for _ in range(STEPS):
        arms = unit_rows(rng, RUNS * K, D).reshape(RUNS, K, D)
        picks = agents.choose(who, arms)
        means = np.einsum("nd,nd->n", arms[who, picks], theta)
        agents.learn(who, arms, picks, means + noise * rng.standard_normal(RUNS))
        gap = agents.models.theta - theta
        V = agents.models.fresh.gram + ridge * np.eye(D)
        distance = np.sqrt(np.einsum("ni,nij,nj->n", gap, V, gap))
        count = agents.models.fresh.count
        logdet = np.linalg.slogdet(V)[1]
        failed |= distance > widths(
            rule, noise=noise, bound=1.0, ridge=ridge, delta=delta, dim=D, logdet=logdet, count=count
        )
    return failed.sum()


@pytest.mark.parametrize("rule", ["theory", "loose"])
@pytest.mark.parametrize(("noise", "delta", "ridge"), [(1.0, 0.3, 0.01), (0.3, 0.5, 0.1)])
def test_coverage(rule, noise, delta, ridge):
    """Refuted only if the share of runs that ever leave the ellipsoid is significantly above delta."""
    failures = int(share_of_failures(rule, noise, delta, ridge, np.random.default_rng(1)))
    assert binomtest(failures, RUNS, delta, alternative="greater").pvalue > 1e-3


def test_a_width_that_is_too_small_is_noticed():
    """The test above can fail: at a fifth of the noise the ellipsoid is left in far more than a delta share of runs."""
    rng = np.random.default_rng(1)
    failures = int(share_of_failures(0.2, 1.0, 0.3, 0.01, rng))
    assert binomtest(failures, RUNS, 0.3, alternative="greater").pvalue < 1e-6


def test_the_bound_is_not_vacuous():
    """With a small ridge and large delta some runs do leave the ellipsoid."""
    assert share_of_failures("theory", 1.0, 0.5, 0.01, np.random.default_rng(2)) > 0
