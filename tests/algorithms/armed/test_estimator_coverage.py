"""Confidence intervals hold as often as they claim to, and the tests would notice if they did not."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_definitions import stable
from scipy.stats import binom

from fedbandits.algorithms.armed.estimators import Estimation, estimator_for
from fedbandits.contract.facts import Moment, Noise
from fedbandits.contract.problem import Problem

AGENTS = 3000
SUB_GAUSSIAN = Problem(agents=1, dim=1, arms=1, horizon=1000).knowing(Noise(1.0))
# E|Z|^1.8 = 3.385 for the standard stable law with alpha = 1.9; Minkowski's inequality adds the mean of 0.5
HEAVY = Problem(agents=1, dim=1, arms=1, horizon=1000).knowing(Moment(1.8, (0.5 + 3.385 ** (1 / 1.8)) ** 1.8, 3.385))


def misses(parameters, problem, draw, mean, samples, turn):
    """How many of many agents have an interval that does not hold the mean."""
    estimator = estimator_for(Estimation(**parameters), problem, AGENTS)
    rewards = draw(np.random.default_rng(samples), samples * AGENTS)
    to = np.repeat(np.arange(AGENTS), samples)
    estimator.gather(to, np.arange(len(to)), np.zeros(len(to), dtype=np.int64), rewards)
    turns = np.full(AGENTS, turn)
    off = np.abs(estimator.estimates(np.arange(AGENTS), turns) - mean)
    return int((off > estimator.widths(estimator.counts, turns)).sum())


def normal(rng, size):
    return rng.normal(size=size)


def bernoulli(rng, size):
    return (rng.random(size) < 0.3).astype(np.float64)


def heavy(rng, size):
    return 0.5 + stable(rng, 1.9, size)


def student(rng, size):
    """Variance 1, infinite fourth moment."""
    return rng.standard_t(3, size) / np.sqrt(3)


def contaminated(far):
    def draw(rng, size):
        x = rng.normal(size=size)
        x[rng.random(size) < 0.1] = far
        return x

    return draw


CASES = {
    "bernoulli": ({}, SUB_GAUSSIAN, bernoulli, 0.3, 1),
    "sub-Gaussian": ({"exploration": 8.0}, SUB_GAUSSIAN, normal, 0.0, 1),
    "trimmed": ({"mean": "trimmed"}, HEAVY, heavy, 0.5, 1),
    "median-of-means": ({"mean": "median-of-means"}, HEAVY, heavy, 0.5, 1),
    "catoni": ({"mean": "catoni"}, SUB_GAUSSIAN, student, 0.0, 2),
    "shortest-interval, far": (
        {"mean": "shortest-interval", "scale": 2.5, "contamination": 0.1},
        SUB_GAUSSIAN,
        contaminated(1e6),
        0.0,
        1,
    ),
    "shortest-interval, near": (
        {"mean": "shortest-interval", "scale": 2.5, "contamination": 0.1},
        SUB_GAUSSIAN,
        contaminated(1.5),
        0.0,
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("samples", "turn"), [(20, 10), (100, 10), (200, 30)])
def test_intervals_hold_as_often_as_they_claim(case, samples, turn):
    """Off with probability at most 1/t^2 (twice that for Catoni's): no more often than chance allows once in 10^6."""
    parameters, problem, draw, mean, sides = CASES[case]
    allowed = binom.ppf(1 - 1e-6, AGENTS, sides / turn**2)
    assert misses(parameters, problem, draw, mean, samples, turn) <= allowed


@pytest.mark.parametrize(
    ("case", "scale"),
    [("sub-Gaussian", 0.5), ("trimmed", 0.05), ("median-of-means", 0.03), ("catoni", 0.4), ("bernoulli", 0.3)],
)
def test_much_narrower_intervals_would_be_noticed(case, scale):
    parameters, problem, draw, mean, sides = CASES[case]
    allowed = binom.ppf(1 - 1e-6, AGENTS, sides / 10**2)
    assert misses(parameters | {"scale": scale}, problem, draw, mean, 100, 10) > allowed


def test_the_printed_width_of_the_shortest_interval_is_too_narrow():
    """With 10% of samples at 1.5 standard deviations most intervals miss the mean: see its docstring."""
    parameters = {"mean": "shortest-interval", "scale": 1.0}
    assert misses(parameters, SUB_GAUSSIAN, contaminated(1.5), 0.0, 400, 10) > AGENTS / 2


def test_the_empirical_mean_does_not_survive_heavy_tails_or_outliers():
    assert misses({}, HEAVY, lambda rng, size: 0.5 + stable(rng, 1.2, size), 0.5, 200, 30) > AGENTS / 4
    assert misses({"exploration": 8.0}, SUB_GAUSSIAN, contaminated(1e6), 0.0, 200, 30) == AGENTS
