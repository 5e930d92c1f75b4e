"""What vectors of doubles do that the kernels made of them do not show."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg.jit import jit
from fedbandits.linalg.simd import address, any_at_least, gather, load, store, target, zero


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


@jit
def _gathered(values, places, at):
    out = np.zeros(8)
    _put(out, gather(zero(2), address(values, 0), places, at))
    return out


@jit
def _put(out, lanes):
    store(target(out, 0), 0, lanes)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint16])
def test_lanes_are_gathered_from_where_they_are_said_to_be(kind):
    values, places = np.arange(100.0) ** 2, np.random.default_rng(0).permutation(100).astype(kind)
    for at in (0, 3, 92):
        assert np.array_equal(_gathered(values, places, at), values[places[at : at + 8]])
