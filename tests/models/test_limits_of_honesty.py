"""What honest observations cannot exceed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedbandits.contract.facts import Link, Moment, Noise, Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.models import limits


def problem(*facts):
    return Problem(agents=2, dim=2, arms=2, horizon=10, facts=facts)


def test_the_largest_reward():
    assert limits.largest_reward(problem(Range(-3.0, 1.0))) == 3.0
    assert limits.largest_reward(problem(Moment(1.5, 1.0, 1.0))) == math.inf
    assert limits.largest_reward(problem(Noise(0.0), Norms(2.0, 3.0))) == 6.0
    # P(|noise| > s sigma) <= 2 exp(-s^2/2), over 20 rewards at most 1e-12
    beyond = (limits.largest_reward(problem(Noise(0.5))) - 1.0) / 0.5
    assert 20 * 2 * math.exp(-(beyond**2) / 2) == pytest.approx(1e-12)


def test_a_range_says_more_than_moments_and_noise():
    assert limits.largest_reward(problem(Range(0.0, 1.0), Moment(1.5, 1.0, 1.0), Noise(5.0))) == 1.0


@pytest.mark.parametrize(("link", "largest"), [("logistic", 1.0), ("probit", 1.0), ("poisson", math.exp(6.0))])
def test_means_are_as_large_as_the_link_lets_them_be(link, largest):
    known = problem(Link(link), Noise(0.0), Norms(2.0, 3.0))
    assert limits.largest_reward(known) == limits.reward(known, {}) == largest


def test_the_trace_of_one_observation():
    assert limits.arm_square(problem(Norms(arms=3.0)), {}) == 9.0
    assert limits.arm_square(problem(), {}) == 1.0


@pytest.mark.parametrize("link", ["identity", "logistic", "poisson", "probit"])
def test_no_gradient_of_an_honest_observation_is_steeper(link):
    from fedbandits.linalg.links import MeanFunction as Function
    from fedbandits.linalg.links import means

    known = problem(Link(link), Norms(1.0, 2.0), Range(-1.5, 1.5))
    rng = np.random.default_rng(0)
    for _ in range(200):
        theta, arm = rng.normal(size=2), rng.normal(size=2)
        arm *= 2.0 / np.linalg.norm(arm)
        y = rng.choice([-1.5, 1.5])
        gradient = arm * (means(Function(link).code, np.array([arm @ theta]))[0] - y)
        assert np.linalg.norm(gradient) <= limits.slope(known, {"theta": theta}) * (1 + 1e-12)


def test_a_gradient_at_a_point_that_nobody_named_has_no_limit():
    assert limits.slope(problem(Range(0.0, 1.0)), {}) == math.inf
    assert limits.none(problem(Range(0.0, 1.0)), {}) == math.inf
