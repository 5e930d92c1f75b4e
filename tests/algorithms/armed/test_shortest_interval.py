"""The shortest-interval mean."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_definitions import Diary, shortest_interval
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.estimators.shortest_interval import ShortestIntervalMean, _points


def after(samples, turn, contamination=0.1, each=None):
    estimator = ShortestIntervalMean(1, 1, 1.0, contamination)
    x = np.array(samples, dtype=np.float64)
    found = 0.0
    for part in np.split(x, range(each or len(x), len(x), each or len(x))):
        zeros = np.zeros(len(part), dtype=np.int64)
        estimator.gather(zeros, np.arange(len(part)), zeros, part)
        found = estimator.estimates(np.array([0]), np.array([turn]))[0, 0]
    return found


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.2, 0.4]))
@settings(max_examples=30, deadline=None)
def test_online_is_the_definition_at_every_step(seed, contamination):
    diary = Diary(ShortestIntervalMean(3, 2, 1.0, contamination), seed)
    definition = lambda x, t: shortest_interval(x, t, contamination)  # noqa: E731
    diary.check(60, definition, rtol=1e-12, atol=1e-13, pace=2)


@pytest.mark.parametrize("each", [1, 7, 100])
def test_many_samples_in_batches_of_any_size(each):
    x = np.random.default_rng(each).standard_t(3, 901)
    assert after(x, 30, each=each) == pytest.approx(shortest_interval(x, 30, 0.1), rel=1e-12)


def test_equal_numbers_and_zeros_of_both_signs():
    x = np.random.default_rng(4).integers(-2, 3, 800) * np.random.default_rng(5).choice([-1.0, 1.0], 800)
    assert after(x, 30, each=50) == pytest.approx(shortest_interval(x, 30, 0.1), rel=1e-12)


def test_few_samples_are_read_by_their_median():
    assert after([5.0], 50) == 5.0
    assert after([5.0, 1.0], 50) == 3.0
    assert after([5.0, 1.0, 1e9], 50) == 5.0


@pytest.mark.parametrize(("turn", "pairs"), [(100, 85), (1000, 127)])
def test_the_interval_is_used_as_soon_as_it_holds_most_of_the_pairs(turn, pairs):
    """eps = 0: h = N - S with S = 2 L + sqrt(2 L M) + M, L = log t^2, M = log 4 t^2; first for odd N > 2 S - 1."""
    level, sharper = 2 * np.log(turn), 2 * np.log(turn) + np.log(4)
    assert pairs == 2 * np.ceil(2 * level + np.sqrt(2 * level * sharper) + sharper) - 1
    x = np.random.default_rng(1).exponential(size=400)
    used = [after(x[: 2 * n], turn, contamination=0.0) != np.median(x[: 2 * n]) for n in range(1, 200)]
    assert used.index(True) + 1 == pairs
    assert all(used[pairs + 1 :])


def test_equal_outliers_do_not_make_the_shortest_interval():
    """At t = 10 and N = 25 the interval would hold 3 of the Y: literally, any three equal outliers among them."""
    assert _points(25, 2 * np.log(10), 0.1) == 3
    x = np.random.default_rng(0).normal(size=50)
    x[[3, 8, 9, 21, 30, 41]] = 1e6
    assert abs(after(x, 10)) < 1


def test_a_window_by_hand():
    """t = 1, eps = 0: delta = 1, alpha = 0, h = N - log 4; N = 6: ceil(4.61) = 5 of the Y, leaving out 100."""
    x, y = [0.0, 1.0, 2.0, 3.5, -1.0, 50.0], [0.0, 3.0, 100.0, 1.0, 2.0, 3.6]
    samples = np.ravel(np.column_stack([x, y]))
    assert after(samples, 1, contamination=0.0) == pytest.approx((0 + 1 + 2 + 3.5) / 4)


@pytest.mark.parametrize("outlier", [1e6, -1e6, 1e300])
def test_ten_percent_of_outliers_are_ignored_once_active(outlier):
    rng = np.random.default_rng(7)
    x = 0.5 + rng.normal(size=3000)
    bad = rng.random(3000) < 0.1
    x[bad] = outlier
    assert after(x, 100, contamination=0.1) == pytest.approx(x[~bad].mean(), abs=0.15)
    assert abs(x.mean()) > 1e4
