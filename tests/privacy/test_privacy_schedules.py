"""Schedules: the publication's definition, by brute force in exact sums, and what calibration rests on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.privacy import broadcast, longest_gap, regular

PARAMETERS = st.floats(0.003, 1.0)
RATES = st.floats(1.01, 1.49)


@pytest.mark.parametrize(
    ("parameter", "rate", "expected"),
    [
        (1.0, 1.1, [1, 2, 3, 4, 5]),
        (1.0, 1.4, [1, 2, 3, 4, 5]),
        (0.5, 1.1, [2, 4, 6, 8, 10]),
        (0.5, 1.4, [2, 4, 6, 8, 10]),
        (0.2, 1.1, [4, 9, 14, 19, 24]),
        (0.2, 1.4, [4, 9, 14, 19, 24]),
        (0.1, 1.1, [7, 16, 26, 36, 46]),
        (0.1, 1.4, [6, 14, 23, 33, 43]),
    ],
)
def test_vectors(parameter, rate, expected):
    assert broadcast(parameter, rate, 1000).counts[:5].tolist() == expected


@given(PARAMETERS, RATES, st.integers(1, 400))
def test_the_definition(parameter, rate, horizon):
    """Each release is the first pull at which the sum since the last one is large enough."""
    counts = broadcast(parameter, rate, horizon).counts.tolist()
    last = 0
    for x in range(1, horizon + 1):
        gathered = math.fsum(j ** (-rate / 2) for j in range(last + 1, x + 1))
        surplus = gathered * parameter * x ** (rate / 2) - 1
        if abs(surplus) > 1e-9:
            assert (x in counts) == (surplus > 0)
        if x in counts:
            last = x


@given(PARAMETERS, RATES)
def test_no_gap_is_longer_than_the_longest(parameter, rate):
    counts = broadcast(parameter, rate, 2000).counts
    assert np.diff(counts, prepend=0).max() <= longest_gap(parameter)
    assert np.diff(regular(parameter, rate, 2000).counts, prepend=0).max() == longest_gap(parameter)


@pytest.mark.parametrize("gap", range(1, 200))
def test_the_inverse_of_a_whole_number_is_that_gap(gap):
    assert longest_gap(1 / gap) == gap


@given(PARAMETERS, PARAMETERS, RATES, st.sampled_from([broadcast, regular]))
def test_a_larger_parameter_never_delays_a_release(one, other, rate, rule):
    """The ground of calibration: the j-th release comes no later, so it costs no less."""
    early, late = rule(max(one, other), rate, 1000), rule(min(one, other), rate, 1000)
    j = len(late.counts)
    assert len(early.counts) >= j
    assert (early.counts[:j] <= late.counts).all()


def test_noise_and_loss():
    releases = regular(1 / 16, 1.1, 16)
    assert releases.scales == pytest.approx([16**-0.45])
    assert releases.scales == pytest.approx([0.287], abs=5e-4)
    assert releases.losses * releases.scales * releases.counts == pytest.approx([1.0])


def test_a_schedule_is_shared_and_cannot_be_written_to():
    releases = broadcast(0.3, 1.2, 50)
    assert broadcast(0.3, 1.2, 50) is releases
    with pytest.raises(ValueError, match="read-only"):
        releases.counts[0] = 1
