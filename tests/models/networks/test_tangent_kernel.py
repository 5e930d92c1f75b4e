"""The tangent kernel in closed form: against expectations by sampling and the features of wide networks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedbandits.models.features.tangent import TangentFeatures
from fedbandits.models.networks import Architecture, symmetric
from fedbandits.models.networks.tangent_kernel import (
    effective_dimension,
    exploration,
    norm_bound,
    published_kernel,
    tangent_kernel,
    training,
)


def doubled(count, half=3, seed=0):
    """Contexts of unit length whose halves are the same."""
    raw = np.random.default_rng(seed).normal(size=(count, half))
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    return np.hstack([raw, raw]) / math.sqrt(2)


def sampled(points, layers, draws, seed=0):
    """H_L by the recursion, its expectations by sampling, each from the covariances of the layer below."""
    rng = np.random.default_rng(seed)
    n = len(points)
    covariance = tangent = points @ points.T
    for layer in range(1, layers):
        root = np.linalg.cholesky(covariance + 1e-12 * np.eye(n))
        u = rng.standard_normal((draws, n)) @ root.T
        above = np.maximum(u, 0)
        tangent = tangent * (2 * (u > 0).T.astype(float) @ (u > 0) / draws) + 2 * above.T @ above / draws
        covariance = tangent_kernel(points, layer + 1)[1]
    return tangent


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_closed_forms_are_the_expectations(layers):
    points = np.random.default_rng(1).normal(size=(6, 8)) * np.array([0.5, 1, 1, 1, 2, 3])[:, None]
    found, _ = tangent_kernel(points, layers)
    expected = sampled(points, layers, 100_000)
    scale = np.sqrt(np.outer(np.diag(found), np.diag(found)))
    np.testing.assert_allclose(found / scale, expected / scale, atol=0.025)  # falls with the root of draws: 0.015 here


@pytest.mark.parametrize(("layers", "width", "draws"), [(2, 3000, 4), (3, 300, 10)])
def test_features_of_wide_networks_have_these_inner_products(layers, width, draws):
    points = doubled(5)
    network = Architecture(points.shape[1], (width,) * (layers - 1), scale=math.sqrt(width))
    found = np.zeros((5, 5))
    for draw in range(draws):
        theta = symmetric(network, np.random.default_rng(draw))
        phi = TangentFeatures(network, theta, math.sqrt(width)).of(np.zeros(1, dtype=np.int64), points[None])[0]
        found += phi @ phi.T / draws
    expected, _ = tangent_kernel(points, layers)
    assert np.diag(expected) == pytest.approx(layers)
    np.testing.assert_allclose(found, expected, atol=0.05 * layers)
    assert np.abs(found - published_kernel(points, layers)).max() > 0.4, "the publications' kernel is another one"


def test_points_that_are_opposite_zero_or_equal():
    x = np.array([0.6, 0.8])
    tangent, covariance = tangent_kernel(np.stack([x, -x, 2 * x, 0 * x]), 2)
    np.testing.assert_allclose(covariance, [[1, 0, 2, 0], [0, 1, 0, 0], [2, 0, 4, 0], [0, 0, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(tangent, 2 * covariance, atol=1e-12)
    with pytest.raises(ValueError, match="at least 2"):
        tangent_kernel(x[None], 1)


def test_the_effective_dimension_is_that_of_eigenvalues_and_sees_through_repetition():
    points, ridge = doubled(40), 0.7
    kernel = published_kernel(points, 2)
    eigenvalues = np.linalg.eigvalsh(kernel)
    expected = np.log(1 + eigenvalues / ridge).sum() / np.log(1 + 40 / ridge)
    assert effective_dimension(kernel, ridge) == pytest.approx(expected, rel=1e-10)
    one = np.ones((500, 500))
    assert effective_dimension(one, ridge) == pytest.approx(1.0)
    assert effective_dimension(np.eye(500), ridge) == pytest.approx(
        500 * np.log(1 + 1 / ridge) / np.log(1 + 500 / ridge)
    )


def test_constants_are_those_of_the_theorem():
    kernel, means = published_kernel(doubled(12), 3), np.random.default_rng(0).normal(size=12)
    assert norm_bound(kernel, means) == pytest.approx(np.sqrt(2 * means @ np.linalg.inv(kernel) @ means))
    everybody = exploration(bound=1.5, noise=0.3, delta=0.1, dimension=7.0, contexts=8000, ridge=1.2)
    assert everybody == pytest.approx(1.5 + 0.3 * np.sqrt(2 * (np.log(30) + 1) + 7 * np.log(1 + 8000 / 1.2)))
    one = exploration(bound=1.5, noise=0.3, delta=0.1, dimension=7.0, contexts=2000, ridge=1.2, agents=4)
    assert one == pytest.approx(1.5 + 0.3 * np.sqrt(2 * (np.log(120) + 1) + 7 * np.log(1 + 2000 / 1.2)))
    rate, steps = training(horizon=1000, layers=2, width=20, ridge=1.0, agents=2, c2=0.5)
    assert rate == pytest.approx(1 / (20 + 40_000))
    assert steps == math.ceil(2001 * np.log(3 * np.sqrt(2e9)))
