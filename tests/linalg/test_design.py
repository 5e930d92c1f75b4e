"""G-optimal designs: their own certificate, brute force where it is possible, and small supports."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from fedbandits.linalg.design import g_optimal
from fedbandits.linalg.medians import median_width


def worst(arms, weights) -> float:
    """max a^T V^+ a."""
    information = (arms * weights[:, None]).T @ arms
    return float(np.einsum("kd,de,ke->k", arms, np.linalg.pinv(information, rcond=1e-13, hermitian=True), arms).max())


@settings(max_examples=40)
@given(
    arms=st.integers(1, 30),
    dim=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["plain", "flat", "lower", "twice"]),
)
def test_the_certificate_of_kiefer_and_wolfowitz(arms, dim, seed, kind):
    """max a^T V^+ a is at most 1.05 r, and no design has less than r; also where arms are nearly or exactly in a
    subspace, or occur twice."""
    drawn = np.random.default_rng(seed).standard_normal((arms, dim))
    if kind == "flat":
        drawn[:, 0] *= 1e-3
    if kind == "lower":
        drawn[:, dim // 2 + 1 :] = 0.0
    if kind == "twice":
        drawn = np.vstack([drawn, drawn])
    weights, rank = g_optimal(drawn)
    assert rank == np.linalg.matrix_rank(drawn)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    assert rank * (1 - 1e-6) <= worst(drawn, weights) <= 1.05 * rank * (1 + 1e-6)


def test_against_brute_force():
    """Four arms in the plane, all designs on a grid."""
    for seed in range(3):
        arms = np.random.default_rng(seed).standard_normal((4, 2))
        grid = np.array([c for c in itertools.product(range(21), repeat=4) if sum(c) == 20]) / 20
        best = min(worst(arms, c) for c in grid if np.count_nonzero(c) > 1)
        assert worst(arms, g_optimal(arms, 1e-3)[0]) <= best + 1e-9


def test_supports_are_small():
    """At most about d (d + 1)/2 arms of five hundred."""
    arms = np.random.default_rng(0).standard_normal((500, 10))
    assert np.count_nonzero(g_optimal(arms)[0]) <= 60


def test_arms_that_are_zero():
    np.testing.assert_allclose(g_optimal(np.array([[0.0, 0.0], [2.0, 0.0]]))[0], [0, 1])
    with pytest.raises(ValueError, match="not zero"):
        g_optimal(np.zeros((3, 2)))


@pytest.mark.parametrize(("m", "liars"), [(20, 0), (20, 4), (21, 8), (5, 1), (1, 0)])
def test_medians_are_as_close_as_the_width_says(m, liars):
    """Liars on one side: 20 000 medians exceed the width as often as it says on that side, and hardly more."""
    chance, draws = 0.1, 20_000
    z = median_width(m, liars, chance)
    values = np.random.default_rng(1).standard_normal((draws, m))
    values[:, :liars] = 1e9
    # the upper middle of an even number is what the width is about
    often = np.mean(np.sort(values, axis=1)[:, m // 2] > z)
    assert often == pytest.approx(chance / 2, abs=4 * np.sqrt(chance / draws))
    assert np.mean(np.median(values, axis=1) > z) <= often
    if m == 1:
        assert ndtr(z) == pytest.approx(1 - chance / 2)


def test_without_a_majority_there_is_no_width():
    assert median_width(10, 5, 0.1) == np.inf
    widths = [median_width(20, liars, 0.1) for liars in range(10)]
    assert widths == sorted(widths)
