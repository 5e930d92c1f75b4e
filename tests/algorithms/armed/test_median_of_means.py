"""The median of means."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_definitions import Diary, median_of_means
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed.estimators.median_of_means import MedianOfMeans


def after(samples, turn, each=None):
    """The estimate from `samples`, handed over `each` at a time."""
    estimator = MedianOfMeans(1, 1, order=2.0, central=1.0)
    x = np.array(samples, dtype=np.float64)
    for part in np.split(x, range(each or len(x), len(x), each or len(x))):
        zeros = np.zeros(len(part), dtype=np.int64)
        estimator.gather(zeros, np.arange(len(part)), zeros, part)
    return estimator.estimates(np.array([0]), np.array([turn]))[0, 0]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([3.0], 3.0),  # k = 1, although n/2 < 1
        ([3.0, 5.0], 4.0),  # k = 1 block of 2
        ([3.0, 5.0, 100.0], 19 / 3 + 89 / 3),  # k = floor(3/2) = 1 block of 3
        ([3.0, 5.0, 100.0, 200.0], (4 + 150) / 2),  # 2 blocks of 2
        ([3.0, 5.0, 100.0, 200.0, 1e9], (4 + 150) / 2),  # the fifth is left out
        ([3.0, 5.0, 100.0, 200.0, 7.0, 9.0], 8.0),  # 3 blocks of 2: 4, 150, 8
    ],
)
def test_few_samples_by_hand(samples, expected):
    """In turn 1000 there are never more than n/2 blocks: 1 + 16 log 1000 = 111.5."""
    assert after(samples, 1000) == pytest.approx(expected, rel=1e-15)


def test_the_number_of_blocks_is_that_of_the_turn_when_there_are_many_samples():
    """t = 1: one block, the mean. t = 2: 1 + 16 log 2 = 12.09, 12 blocks of 8; the last 4 of 100 are left out."""
    x = np.arange(100.0) ** 2
    assert after(x, 1) == pytest.approx(x.mean())
    means = x[:96].reshape(12, 8).mean(axis=1)
    assert after(x, 2) == pytest.approx((means[5] + means[6]) / 2)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_online_is_the_definition_at_every_step(seed):
    diary = Diary(MedianOfMeans(3, 2, order=1.5, central=1.0), seed, tail=1.3)
    diary.check(80, median_of_means, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [63, 64, 65, 127, 128, 129, 1000, 4096, 5003])
@pytest.mark.parametrize("turn", [1, 2, 5])
def test_long_blocks_made_of_chunks(n, turn):
    x = np.random.default_rng(n).normal(size=n) + 1
    assert after(x, turn, each=97) == pytest.approx(median_of_means(x, turn), rel=1e-13)


def test_an_outlier_takes_digits_from_its_own_block_alone():
    """With running sums every later block would be lost: 1e300 has no digits left for them."""
    x = np.random.default_rng(0).normal(size=6000)
    x[5] = 1e300
    x[3000] = -1e290
    turn = 3
    k = int(1 + 16 * np.log(turn))
    means = x[: 6000 // k * k].reshape(k, -1).mean(axis=1)
    assert after(x, turn, each=100) == pytest.approx(np.median(means), rel=1e-13)
    assert abs(np.median(means)) < 1
