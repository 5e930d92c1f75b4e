"""Catoni's M-estimator, against a root finder."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimator_definitions import Diary
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from fedbandits.algorithms.armed.estimators.catoni import CatoniMean


def influence(y):
    return np.sign(y) * np.log1p(np.abs(y) + y**2 / 2)


def root(x, t, variance):
    """As defined; fewer than 4 log(1/delta) samples are read at the confidence they can give."""
    n = len(x)
    level = min(math.log(t**2), n / 4)
    if level == 0:
        return x.mean()
    alpha = math.sqrt(2 * level / (n * (variance + 2 * variance * level / (n - 2 * level))))
    low, high = x.min(), x.max()
    if low == high:
        return low
    return brentq(lambda theta: influence(alpha * (x - theta)).sum(), low, high, xtol=1e-300, rtol=1e-15, maxiter=5000)


def after(samples, turn, variance=1.0):
    estimator = CatoniMean(1, 1, variance)
    zeros = np.zeros(len(samples), dtype=np.int64)
    estimator.gather(zeros, np.arange(len(samples)), zeros, np.array(samples, dtype=np.float64))
    return estimator.estimates(np.array([0]), np.array([turn]))[0, 0]


@given(st.integers(0, 10**6), st.floats(0.01, 100))
@settings(max_examples=20, deadline=None)
def test_the_root_is_the_root_at_every_step(seed, variance):
    diary = Diary(CatoniMean(3, 2, variance), seed, tail=1.2)
    diary.check(40, lambda x, t: root(x, t, variance), rtol=1e-11, atol=1e-11 * max(1, variance**0.5))


def test_two_samples_meet_in_the_middle():
    assert after([1.0, 4.0], 50) == pytest.approx(2.5, rel=1e-12)


def test_equal_samples_are_the_estimate():
    assert after([0.3] * 7, 50) == pytest.approx(0.3, abs=1e-12)


def test_the_first_turn_is_the_mean():
    assert after([1.0, 2.0, 9.0], 1) == pytest.approx(4.0, rel=1e-15)


@pytest.mark.parametrize("outlier", [1e3, 1e12, -1e30, 1e160, -1e300])
@pytest.mark.parametrize("n", [3, 40, 2000])
def test_outliers_of_any_size(outlier, n):
    x = np.random.default_rng(3).normal(size=n)
    x[n // 2] = outlier
    found = after(x, 20)
    alpha = math.sqrt(2 * min(math.log(400), n / 4) * (n - 2 * min(math.log(400), n / 4))) / n

    def pull(theta):
        y = np.minimum(np.abs(alpha * (x - theta)), 1e150)
        return (np.sign(x - theta) * np.log1p(y + y**2 / 2)).sum()

    expected = brentq(pull, x.min(), x.max(), xtol=1e-300, rtol=1e-15, maxiter=5000)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if n == 2000:
        assert abs(found) < 10 * abs(math.log(abs(outlier)))


def test_outliers_of_both_signs_in_one_chunk():
    x = np.tile([1e40, -1e40, 0.5, -1e60, 1e60, 0.1], 20)
    assert after(x, 50) == pytest.approx(root(x, 50, 1.0), rel=1e-9)


def test_the_estimate_is_far_nearer_than_the_mean_when_one_sample_is_far():
    rng = np.random.default_rng(8)
    x = rng.normal(size=1000)
    x[17] = 1e5
    assert x.mean() > 99
    assert abs(after(x, 100)) < 0.6
