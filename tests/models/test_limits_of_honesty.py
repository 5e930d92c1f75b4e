"""What honest observations cannot exceed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbandits.contract.facts import Link, Moment, Noise, Norms, Range, Ridge
from fedbandits.contract.problem import Problem
from fedbandits.linalg.links import MeanFunction
from fedbandits.models import limits
from fedbandits.models.observations import Observations


def problem(*facts):
    return Problem(agents=2, dim=2, arms=2, horizon=10, facts=facts)


def test_the_largest_reward():
    assert limits.largest_reward(problem(Range(-3.0, 1.0))) == 3.0
    assert limits.largest_reward(problem(Moment(1.5, 1.0, 1.0))) == pytest.approx((20 * 1e12) ** (1 / 1.5))
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


def test_a_gradient_at_a_point_that_nobody_named_is_at_one_of_the_algorithms_own():
    known = problem(Range(0.0, 1.0), Norms(2.0, 3.0))
    assert limits.slope(known, {}) == limits.slope(known, {"theta": np.array([2.0, 0.0])}) == 3.0 * (6.0 + 1.0)
    assert limits.none(known, {}) == math.inf


LINKS = ("identity", "logistic", "poisson", "probit")


@pytest.mark.parametrize("link", LINKS)
@given(
    angle=st.floats(0.0, 2 * math.pi),
    size=st.floats(0.0, 3.0),
    arms=arrays(float, (5, 2), elements=st.floats(-1.0, 1.0)),
    signs=arrays(bool, 5),
)
def test_no_sum_over_honest_observations_is_beyond_its_limit(link, angle, size, arms, signs):
    """Arms of norm L, rewards of size R, at any point: with the very functions that agents compute them by."""
    reach, largest = 2.0, 1.5
    known = problem(Link(link), Norms(1.0, reach), Range(-largest, largest))
    theta = size * np.array([math.cos(angle), math.sin(angle)])
    norms = np.linalg.norm(arms, axis=1, keepdims=True)
    arms = np.where(norms > 1e-3, reach * arms / np.maximum(norms, 1e-3), arms)
    data, who = Observations(1, 2, 8), np.zeros(1, dtype=np.int64)
    for arm, sign in zip(arms, signs, strict=True):
        data.add(who, arm[None, None], who, np.array([largest if sign else -largest]))
    loss, gradient, hessian = data.curvatures(MeanFunction(link), who, theta[None], given=False)
    asked, slack = {"theta": theta}, 1 + 1e-9
    assert abs(loss[0]) <= 5 * limits.loss(known, asked) * slack + 1e-12
    assert np.linalg.norm(gradient[0]) <= 5 * limits.slope(known, asked) * slack + 1e-12
    assert np.trace(hessian[0]) <= 5 * limits.bend(known, asked) * slack + 1e-12


@pytest.mark.parametrize("link", LINKS)
def test_limits_of_losses_and_hessians_are_reached(link):
    known = problem(Link(link), Norms(1.0, 2.0), Range(-1.5, 1.5))
    data, who = Observations(1, 2, 8), np.zeros(1, dtype=np.int64)
    theta = np.array([0.7, 0.0])
    arm = np.array([2.0, 0.0])
    data.add(who, arm[None, None], who, np.array([-1.5]))
    loss, _, _ = data.curvatures(MeanFunction(link), who, theta[None], given=False)
    assert loss[0] == pytest.approx(limits.loss(known, {"theta": theta}))
    steepest = theta if link == "poisson" else np.zeros(2)
    _, _, hessian = data.curvatures(MeanFunction(link), who, steepest[None], given=False)
    assert np.trace(hessian[0]) == pytest.approx(limits.bend(known, {"theta": steepest}))


@given(arms=arrays(float, (10, 2), elements=st.floats(-1.0, 1.0)), ridge=st.sampled_from([1e-3, 0.1, 1.0, 50.0]))
def test_no_determinant_grows_beyond_its_limit(arms, ridge):
    arms = arms / np.maximum(np.linalg.norm(arms, axis=1, keepdims=True), 1e-9)
    known = problem(Ridge(ridge))
    grown = np.linalg.slogdet(np.eye(2) + arms.T @ arms / ridge)[1]
    assert grown <= limits.growth(known, {}) + 1e-9
    both = np.tile(np.eye(2), (5, 1))
    assert np.linalg.slogdet(np.eye(2) + both.T @ both / ridge)[1] == pytest.approx(limits.growth(known, {}))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e200])
def test_every_limit_is_a_number(link, size):
    """Also at absurd points, and with heavy tails: or else it would be no limit."""
    for heavy in ((), (Moment(1.1, 5.0, 1.0),)):
        known = problem(Link(link), Norms(3.0, 2.0), Ridge(1e-9), *heavy)
        for limit in (limits.reward, limits.residual, limits.slope, limits.bend, limits.loss, limits.growth):
            assert math.isfinite(limit(known, {"theta": np.array([min(size, 1e100), 0.0])})), limit


def test_heavy_tails_are_bounded_by_their_moment():
    """P(|X| > u) <= E|X|^p / u^p, over 20 rewards at most 1e-12."""
    largest = limits.largest_reward(problem(Moment(1.5, 3.0, 1.0)))
    assert 20 * 3.0 / largest**1.5 == pytest.approx(1e-12)
