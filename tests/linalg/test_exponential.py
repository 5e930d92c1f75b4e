"""exp for loops, against the one of numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.linalg.exponential import exponential


@given(st.floats(-708.0, 709.0))
def test_it_is_exp(x):
    assert exponential(x) == pytest.approx(np.exp(x), rel=4 * 2.0**-53, abs=0.0)


def test_it_is_exp_where_the_nearest_power_of_two_changes():
    for n in range(-1020, 1023):
        middle = (n + 0.5) * math.log(2)
        for x in (np.nextafter(middle, -math.inf), middle, np.nextafter(middle, math.inf)):
            if -708 <= x <= 709:
                assert exponential(x) == pytest.approx(np.exp(x), rel=4 * 2.0**-53, abs=0.0)


def test_ends():
    assert exponential(0.0) == exponential(-0.0) == 1.0
    assert exponential(5e-324) == 1.0
    assert exponential(1e6) == exponential(math.inf) == math.inf
    assert exponential(-1e6) == exponential(-math.inf) == 0.0
    assert math.isnan(exponential(math.nan))
