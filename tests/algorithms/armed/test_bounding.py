"""Bounds on half-widths hold wherever they were taken, and spare nearly all powers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.algorithms.armed import bounding
from fedbandits.algorithms.armed.estimators.contract import Rate
from fedbandits.linalg.jit import jit

RATES = [
    Rate(factor=0.4, slope=2.0, exponent=p, base=b, offset=o) for p in (0.05, 0.45, 0.97) for b, o in ((0, 0), (3, 2))
]


@jit
def _width(touched, count, demand, rate):
    return bounding.width_from(touched, 0, 0, count, demand, rate)


@jit
def _at_most(touched, count, demand, rate):
    return bounding.width_at_most(touched, 0, 0, count, demand, rate)


@given(
    rate=st.sampled_from(RATES),
    looks=st.lists(st.tuples(st.integers(1, 10**9), st.floats(1e-3, 1e3)), min_size=2, max_size=6),
)
@settings(deadline=None)
def test_no_width_is_above_its_bound(rate, looks):
    touched = bounding.untouched_widths(1, 1, rate)
    for count, demand in looks:
        bound = _at_most(touched, count, demand, rate)
        assert bound >= _width(touched, count, demand, rate)


def test_a_bound_is_close_where_little_has_changed():
    rate = RATES[2]
    touched = bounding.untouched_widths(1, 1, rate)
    _width(touched, 1000, 18.0, rate)
    there = rate.factor * (18.1 / 1010) ** rate.exponent
    assert there <= _at_most(touched, 1010, 18.1, rate) < 1.001 * there


def test_nothing_is_known_of_an_arm_before_the_first_look_nor_without_a_sample():
    touched = bounding.untouched_widths(1, 1, RATES[2])
    assert _at_most(touched, 5, 1.0, RATES[2]) == np.inf
    assert _width(touched, 0, 1.0, RATES[2]) == np.inf
    assert _at_most(touched, 0, 1.0, RATES[2]) == np.inf


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_no_bounds_where_they_do_not_hold_or_do_not_pay(exponent):
    touched = bounding.untouched_widths(3, 2, Rate(1.0, 2.0, exponent))
    assert touched.shape == (0, 2, 2)
