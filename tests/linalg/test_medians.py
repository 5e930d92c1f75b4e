"""Centres that a minority cannot move: the geometric median against a general minimiser, trimmed means by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedbandits.linalg.medians import geometric_median, trimmed_mean


def total(points, centre) -> float:
    return float(np.linalg.norm(points - centre, axis=1).sum())


@settings(max_examples=30)
@given(
    m=st.integers(1, 9),
    p=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["spread", "ties", "outlier"]),
)
def test_no_point_has_a_smaller_sum_of_distances(m, p, seed, kind):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((m, p))
    if kind == "ties":
        points = np.round(points)
    if kind == "outlier":
        points[0] *= 1e5
    weights = geometric_median(points)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    found = total(points, weights @ points)
    start = weights @ points + 1e-3 * rng.standard_normal(p)
    other = minimize(lambda at: total(points, at), start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    best = min([other.fun, *(total(points, point) for point in points)])
    assert found <= best * (1 + 1e-6) + 1e-9


def test_the_median_may_be_one_of_the_points():
    """Where an iterate meets a point Weiszfeld's step is not defined: three corners and their centre, twice or once."""
    corners = np.array([[0.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    for times in (1, 2):
        points = np.vstack([corners, np.repeat(corners.mean(axis=0, keepdims=True), times, axis=0)])
        centre = geometric_median(points) @ points
        assert total(points, centre) <= min(total(points, point) for point in points) + 1e-9


def test_the_mean_of_the_corners_is_left_if_it_is_a_point_but_not_the_median():
    """Starting exactly on a point that is not the median: the correction of Vardi & Zhang leaves it."""
    points = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 0.0], [-3.0, 0.0], [0.75, 0.0], [-0.75, 0.0]])
    assert np.abs(geometric_median(points) @ points).max() < 1e-9
    line = np.array([[-4.0], [1.0], [1.0], [1.0], [1.0], [0.0]])  # the mean is 0, a point; the median is 1
    assert line.mean() == 0
    assert (geometric_median(line) @ line)[0] == pytest.approx(1.0)


def test_equal_points_and_pairs_are_averaged():
    np.testing.assert_array_equal(geometric_median(np.ones((4, 3))), np.full(4, 0.25))
    np.testing.assert_allclose(geometric_median(np.array([[0.0], [2.0]])), [0.5, 0.5])


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_a_minority_far_away_moves_it_by_no_more_than_the_bound(share):
    rng = np.random.default_rng(0)
    m = 20
    liars = int(share * m)
    points = rng.standard_normal((m, 5))
    points[:liars] = 1e8 * rng.standard_normal(5)
    honest = points[liars:]
    radius = np.linalg.norm(honest, axis=1).max()
    moved = np.linalg.norm(geometric_median(points) @ points)
    assert moved <= 2 * (1 - share) / (1 - 2 * share) * radius


def test_trimmed_means_leave_out_the_outermost():
    values = np.array([[1.0, 9.0], [2.0, -100.0], [3.0, 7.0], [1000.0, 8.0]])
    np.testing.assert_allclose(trimmed_mean(values, 1), [2.5, 7.5])
    np.testing.assert_allclose(trimmed_mean(values, 0), values.mean(axis=0))
