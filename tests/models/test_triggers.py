"""Triggers: levels against thresholds, and how far they have come."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.models.triggers import ALWAYS, Trigger, both, grown, observed, urgencies

LEVELS = {"observed": observed, "grown": grown, "both": both}
every_level = pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
agents = st.lists(st.tuples(st.integers(0, 50), st.floats(0, 20)), min_size=1, max_size=8)


def arrays(pairs):
    count, growth = np.array(pairs, dtype=float).T
    return count, np.where(count > 0, growth, 0.0)


def test_levels_by_hand():
    count, growth = np.array([0.0, 2.0, 3.0]), np.array([0.0, 0.5, 2.0])
    assert observed(count, growth).tolist() == [0, 2, 3]
    assert grown(count, growth).tolist() == [0, 0.5, 2]
    assert both(count, growth).tolist() == [0, 1, 6]


@every_level
@pytest.mark.parametrize("strict", [False, True])
@given(agents, st.floats(0, 30))
def test_it_fires_where_the_level_has_reached_the_threshold(level, strict, pairs, threshold):
    count, growth = arrays(pairs)
    trigger = Trigger(level, threshold, strict)
    held = level(count, growth)
    expected = [
        seen > 0 and (high > threshold if strict else high >= threshold) for seen, high in zip(count, held, strict=True)
    ]
    assert trigger.fired(count, growth).tolist() == expected
    assert trigger.fired(count, growth).dtype == np.bool_


@every_level
@given(agents, st.floats(1e-3, 30))
def test_urgency_is_one_where_it_fires(level, pairs, threshold):
    count, growth = arrays(pairs)
    trigger = Trigger(level, threshold)
    urgency = trigger.urgency(count, growth)
    assert (urgency >= 0).all()
    reached = level(count, growth) / threshold
    np.testing.assert_array_equal(urgency, reached)
    sure = np.abs(reached - 1) > 1e-9
    np.testing.assert_array_equal((urgency >= 1)[sure], trigger.fired(count, growth)[sure])


@every_level
def test_nobody_calls_who_has_observed_nothing(level):
    """Not even at a threshold of 0, which anything reaches."""
    nothing = np.zeros(2)
    for strict in (False, True):
        assert not Trigger(level, 0.0, strict).fired(nothing, nothing).any()


@every_level
def test_the_limits_of_the_threshold(level):
    """0 is reached by anything above, infinity by nothing; urgencies say so and are no NaN."""
    count, growth = np.array([0.0, 1.0, 50.0]), np.array([0.0, 0.1, 9.0])
    assert Trigger(level, 0.0, strict=True).fired(count, growth).tolist() == [False, True, True]
    assert Trigger(level, 0.0).urgency(count, growth).tolist() == [0.0, math.inf, math.inf]
    assert not Trigger(level, math.inf).fired(count, growth).any()
    assert Trigger(level, math.inf).urgency(count, growth).tolist() == [0.0, 0.0, 0.0]


def test_thresholds_may_differ_between_agents():
    thresholds = np.array([1.0, 4.0, 0.0, math.inf, 0.0])
    assert urgencies(np.array([2.0, 2.0, 2.0, 2.0, 0.0]), thresholds).tolist() == [2.0, 0.5, math.inf, 0.0, 0.0]


def test_always():
    count = np.array([0.0, 1.0, 7.0])
    assert ALWAYS.fired(count, np.zeros(3)).tolist() == [False, True, True]
    assert ALWAYS.urgency(count, np.zeros(3)).tolist() == [0.0, 1.0, 7.0]


def test_a_schedule_does_not_look_at_growth():
    """No reward, and not even an arm, can change when it fires."""
    count = np.arange(6.0)
    fired = [Trigger(observed, 3.0).fired(count, growth).tolist() for growth in (np.zeros(6), np.full(6, 1e9))]
    assert fired[0] == fired[1] == [False] * 3 + [True] * 3
