"""The trimmed mean, online and at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimator_definitions import Diary, printed, trimmed
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.estimators.trimmed import PrintedTrimmedMean, TrimmedMean

ORDERS = st.floats(1.05, 2)
RAWS = st.floats(0.05, 20)


def feed(estimator, *rewards):
    ones = np.zeros(len(rewards), dtype=np.int64)
    estimator.gather(ones, np.arange(len(rewards)), ones, np.array(rewards, dtype=np.float64))


def at(estimator, turn):
    return estimator.estimates(np.array([0]), np.array([turn]))[0, 0]


@given(st.integers(0, 10**6), ORDERS, RAWS)
@settings(max_examples=40, deadline=None)
def test_online_is_the_definition_at_every_step(seed, order, raw):
    diary = Diary(TrimmedMean(3, 2, order, raw, horizon=400), seed)
    diary.check(80, lambda x, t: trimmed(x, t, order, raw), atol=1e-10, pace=6)


@given(st.integers(0, 10**6), ORDERS, RAWS)
@settings(max_examples=40, deadline=None)
def test_the_printed_version_is_the_printed_formula_at_every_step(seed, order, raw):
    diary = Diary(PrintedTrimmedMean(3, 2, order, raw, horizon=400), seed)
    diary.check(80, lambda x, t: printed(x, t, order, raw), atol=1e-10, pace=6)


def test_samples_leave_by_hand():
    """u = p = 2: sample i stays while log t <= i / X^2, X = 1: 1, 2, 3, ...; in turns 1..2, 1..7, 1..20, ..."""
    estimator = TrimmedMean(1, 1, order=2.0, raw=2.0, horizon=1000)
    feed(estimator, 1.0, 1.0, 1.0)
    left = {1: 3, 2: 3, 3: 2, 7: 2, 8: 1, 20: 1, 21: 0, 1000: 0}
    assert {turn: at(estimator, turn) * 3 for turn in left} == left


def test_samples_join_by_hand_in_the_printed_version():
    """u = 1/2, p = 2: sample i joins as soon as log t >= X^2 / i; X^2 = 6 is 6, 3, 2: in turns 404, 21, 8."""
    estimator = PrintedTrimmedMean(1, 1, order=2.0, raw=0.5, horizon=1000)
    feed(estimator, *[math.sqrt(6)] * 3)
    joined = {1: 0, 7: 0, 8: 1, 20: 1, 21: 2, 403: 2, 404: 3}
    assert {turn: round(at(estimator, turn) * 3 / math.sqrt(6), 12) for turn in joined} == joined


def test_an_outlier_that_has_left_leaves_nothing_behind():
    """u = p = 2: outliers leave in turn 2, before any 1; some of the ones wait in the same heap, the later do not."""
    estimator = TrimmedMean(1, 1, order=2.0, raw=2.0, horizon=10**6)
    feed(estimator, 1e300, -1e200, *[1.0] * 30, 1e250, *[1.0] * 8)
    assert at(estimator, 1) == pytest.approx(1e300 / 41)
    assert at(estimator, 2) == 38 / 41
    assert 1 < estimator.waiting.lengths[0, 0] // 2 < 38


def test_beyond_the_horizon_the_threshold_stays():
    rng = np.random.default_rng(1)
    for kind in (TrimmedMean, PrintedTrimmedMean):
        estimator = kind(1, 1, order=1.5, raw=1.0, horizon=50)
        feed(estimator, *rng.standard_t(1.6, 100))
        end = at(estimator, 50)
        assert at(estimator, 51) == end
        assert at(estimator, 5000) == end
        x = rng.standard_t(1.6, 100)
        feed(estimator, *x)
        twin = kind(1, 1, order=1.5, raw=1.0, horizon=50)
        twin.load(estimator.state())
        assert at(estimator, 6000) == at(twin, 50)


def test_few_samples_wait():
    """Of 20000 samples of the class fewer than 2 log T (1 + log n) are ever in the heap (Markov's inequality)."""
    rng = np.random.default_rng(2)
    estimator = TrimmedMean(1, 1, order=1.5, raw=float((np.abs(rng.standard_t(2, 10**6)) ** 1.5).mean()), horizon=10**4)
    most = 0
    for turn in range(1, 101):
        feed(estimator, *rng.standard_t(2, 200))
        at(estimator, turn)
        most = max(most, int(estimator.waiting.lengths.max()) // 2)
    assert 5 < most < 2 * math.log(10**4) * (1 + math.log(20000))


def test_outliers_never_count_but_join_in_the_printed_version():
    """30^2 <= i / (2 log 1000) first holds for i = 12435, and 30^2 <= 2 i log 1000 for i = 66."""
    x = np.tile([0.2, -0.1, 30.0], 100)
    values = []
    for kind in (TrimmedMean, PrintedTrimmedMean):
        estimator = kind(1, 1, order=2.0, raw=1.0, horizon=1000)
        feed(estimator, *x)
        values.append(at(estimator, 1000))
    assert values == pytest.approx([10 / 300, (10 + 30 * (100 - 21)) / 300], abs=1e-3)
