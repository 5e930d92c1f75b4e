"""Kernels: matrices against the formulas, and what makes them kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import Matern as TheirMatern

from fedbandits.contract.errors import ConfigError
from fedbandits.facts import RKHS
from fedbandits.models.kernels import Linear, Matern, SquaredExponential, kernel_named, kernel_of

SCALES = (0.7, 1.3, 2.0)
KERNELS = [
    SquaredExponential(SCALES),
    SquaredExponential(SCALES, additive=True),
    Linear(3),
    *(Matern(SCALES, smoothness) for smoothness in (0.5, 1.5, 2.5)),
]


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


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_rougher_ones_are_scikit_learns_and_bessels(smoothness):
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(20, 3)), rng.normal(size=(11, 3))
    found = Matern(SCALES, smoothness).matrix(left, right)
    np.testing.assert_allclose(found, TheirMatern(SCALES, nu=smoothness)(left, right), rtol=1e-12)
    apart = np.sqrt(2 * smoothness * (((left[:, None] - right) / np.array(SCALES)) ** 2).sum(axis=2))
    bessel = 2 ** (1 - smoothness) / gamma(smoothness) * apart**smoothness * kv(smoothness, apart)
    np.testing.assert_allclose(found, bessel, rtol=1e-10)


def test_the_roughest_is_the_exponential_of_the_distance():
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    expected = np.exp(-np.linalg.norm(left[:, None] - right, axis=2))
    np.testing.assert_allclose(kernel_named("matern-1/2", 1.0, 4).matrix(left, right), expected, rtol=1e-14)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if not isinstance(kernel, Linear)], ids=repr)
def test_frequencies_are_of_the_law_whose_waves_are_the_kernel(kernel):
    """The mean of cos(<omega, x - y>) over 200,000 draws, within 5 standard errors."""
    rng = np.random.default_rng(4)
    points = rng.normal(size=(6, 3))
    omega = kernel.frequencies(200_000, rng)
    waves = np.cos((points[:, None] - points).reshape(-1, 3) @ omega.T).mean(axis=1).reshape(6, 6)
    np.testing.assert_allclose(waves, kernel.matrix(points, points), atol=5 * np.sqrt(0.5 / 200_000))


@settings(max_examples=40, deadline=None)
@given(
    which=st.sampled_from(range(len(KERNELS))),
    count=st.integers(1, 12),
    spread=st.floats(0.01, 10),
    seed=st.integers(0, 999),
)
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


def test_kernels_have_names():
    assert kernel_named("linear", 1.0, 3) == Linear(3)
    assert kernel_named("rbf", (0.5, 2.0), 2) == SquaredExponential((0.5, 2.0))
    assert kernel_named("matern-5/2", 0.5, 2) == Matern((0.5, 0.5), 2.5)
    with pytest.raises(ConfigError, match="lengthscale: 2 are given for arms of dimension 3"):
        kernel_named("rbf", (0.5, 2.0), 3)
