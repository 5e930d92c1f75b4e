"""What vectors of doubles do that the kernels made of them do not show."""

from __future__ import annotations

import numpy as np

from fedbandits.linalg.jit import jit
from fedbandits.linalg.simd import address, any_at_least, load, zero


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
