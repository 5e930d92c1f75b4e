"""What vectors of doubles do that the kernels made of them do not show."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from fedbandits.linalg.jit import jit
from fedbandits.linalg.simd import add_where, address, any_at_least, load, store, target, zero


@jit
def _marked(values, x, flags, offset, out):
    store(target(out, 0), 0, add_where(load(zero(2), address(values, 0), 0), x, flags, offset))


@pytest.mark.parametrize("x", [1.5, -0.1, np.inf, np.nan])
def test_numbers_are_added_where_flags_say_so(x):
    """And nowhere else: what is not a number stays with those whom it reaches."""
    rng = np.random.default_rng(0)
    values, out = rng.standard_normal(8), np.empty(8)
    flags = -rng.integers(0, 2, size=(3, 8)).astype(np.int8)
    for row in range(3):
        _marked(values, x, flags, 8 * row, out)
        np.testing.assert_array_equal(out, np.where(flags[row] < 0, values + x, values))


@jit
def _reaches(a, b):
    return any_at_least(load(zero(2), address(a, 0), 0), load(zero(2), address(b, 0), 0))


def test_any_lane_is_enough():
    low, high = np.zeros(8), np.ones(8)
    assert not _reaches(low, high)
    for lane in range(8):
        for value, said in ((1.0, True), (2.0, True), (np.inf, True), (0.5, False), (np.nan, False)):
            one = low.copy()
            one[lane] = value
            assert _reaches(one, high) is said


def test_flags_of_another_kind_are_refused():
    with pytest.raises(TypingError):
        _marked(np.zeros(8), 1.0, np.zeros(8, dtype=np.int64), 0, np.zeros(8))
