"""Kernels: matrices against the formulas, and what makes them kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

from fedbandits.facts import RKHS
from fedbandits.models.kernels import Linear, SquaredExponential, kernel_of

KERNELS = [SquaredExponential((0.7, 1.3, 2.0)), SquaredExponential((0.7, 1.3, 2.0), additive=True), Linear(3)]


def test_a_product_is_scikit_learns():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(20, 3)), rng.normal(size=(11, 3))
    expected = RBF((0.7, 1.3, 2.0))(left, right)
    np.testing.assert_allclose(KERNELS[0].matrix(left, right), expected, rtol=1e-13, atol=1e-15)


def test_a_sum_is_the_mean_over_coordinates():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(20, 3)), rng.normal(size=(11, 3))
    parts = [RBF(scale)(left[:, [j]], right[:, [j]]) for j, scale in enumerate((0.7, 1.3, 2.0))]
    np.testing.assert_allclose(KERNELS[1].matrix(left, right), np.mean(parts, axis=0), rtol=1e-13)


@settings(max_examples=40, deadline=None)
@given(which=st.sampled_from(range(3)), count=st.integers(1, 12), spread=st.floats(0.01, 10), seed=st.integers(0, 999))
def test_they_are_symmetric_and_semidefinite_with_the_diagonal_they_tell(which, count, spread, seed):
    kernel = KERNELS[which]
    points = spread * np.random.default_rng(seed).normal(size=(count, 3))
    matrix = kernel.matrix(points, points)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() >= -1e-12 * max(1.0, spread**2) * count
    np.testing.assert_allclose(np.diag(matrix), kernel.diagonal(points), rtol=1e-14)


def test_the_profile_is_the_kernel_in_one_coordinate():
    r = np.linspace(0, 5, 30)
    kernel = SquaredExponential((0.4,))
    np.testing.assert_allclose(kernel.matrix(0.4 * r[:, None], np.zeros((1, 1)))[:, 0], kernel.profile(r), rtol=1e-13)


def test_a_fact_is_a_kernel():
    assert kernel_of(RKHS(0.5), 3) == SquaredExponential((0.5,) * 3)
    assert kernel_of(RKHS((0.5, 2.0), additive=True), 2) == SquaredExponential((0.5, 2.0), additive=True)
    with pytest.raises(ValueError, match="dimension 3"):
        kernel_of(RKHS((0.5, 2.0)), 3)
