"""Joint kernels of agents and points, and their features."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.contract.streams import Streams
from fedbandits.models.agent_kernels import JointFeatures, composed
from fedbandits.models.kernels import Linear, Matern, SquaredExponential

AGENTS, POINTS = 7, 25


def features_of(kernel, composition, most, seed=0):
    return JointFeatures(kernel, composition, most, AGENTS, Streams(np.random.SeedSequence(seed), AGENTS))


def similar(rng, scale):
    z = scale * rng.standard_normal((AGENTS, 2))
    return SquaredExponential((1.0, 1.0)).matrix(z, z)


def test_the_kronecker_product_of_gram_matrices_has_the_products_as_entries():
    rng = np.random.default_rng(0)
    z, x = similar(rng, 1.0), Linear(3).matrix(*[rng.standard_normal((POINTS, 3))] * 2)
    both = np.kron(z, x)
    for v in range(AGENTS):
        for w in range(AGENTS):
            block = both[v * POINTS : (v + 1) * POINTS, w * POINTS : (w + 1) * POINTS]
            np.testing.assert_array_equal(composed("kronecker", z[v, w], x), block)
            np.testing.assert_array_equal(composed("product", z[v, w], x), block)


@pytest.mark.parametrize("composition", ["product", "sum", "kronecker"])
def test_compositions_are_positive_semidefinite_and_at_most_one(composition):
    rng = np.random.default_rng(1)
    who, x = rng.integers(AGENTS, size=60), rng.standard_normal((60, 2))
    table = similar(rng, 1.0)
    gram = composed(composition, table[np.ix_(who, who)], SquaredExponential((0.5, 0.5)).matrix(x, x))
    assert np.linalg.eigvalsh(gram).min() > -1e-10
    assert gram.max() <= 1 + 1e-12


@pytest.mark.parametrize("composition", ["product", "sum"])
def test_linear_features_are_exact_where_there_is_room(composition):
    rng = np.random.default_rng(2)
    features, points = features_of(Linear(3), composition, 3 * AGENTS), rng.standard_normal((POINTS, 3))
    assert features.exact(AGENTS, same=False)
    assert features.error(similar(rng, 1.0), points, Linear(3)) < 1e-12
    assert not features_of(Linear(3), composition, 3).exact(AGENTS, same=False)


@pytest.mark.parametrize("kernel", [SquaredExponential((1.0,) * 3), Matern((1.0,) * 3, 2.5)], ids=["rbf", "matern"])
@pytest.mark.parametrize(("scale", "size"), [(0.0, 1.0), (0.7, 3.0), (20.0, 2.0)], ids=["one", "alike", "strangers"])
def test_the_error_of_random_features_is_what_is_stated(kernel, scale, size):
    """sqrt(1/D) where K_z is 1 for all, up to sqrt(3/D) where agents differ; and half of it for four times as many."""
    rng = np.random.default_rng(3)
    points = rng.standard_normal((POINTS, 3))
    table = None if scale == 0 else similar(rng, scale)

    def error(most):
        found = [features_of(kernel, "product", most, seed).error(table, points, kernel) for seed in range(8)]
        return np.sqrt(np.mean(np.square(found)))

    assert error(64) < 1.1 * np.sqrt(size / 64)
    assert error(256) == pytest.approx(error(64) / 2, rel=0.25)


def test_norms_are_exact():
    rng = np.random.default_rng(4)
    features, table = features_of(SquaredExponential((1.0,) * 3), "product", 32), similar(rng, 0.8)
    psi = features.joined(features.of_points(rng.standard_normal((AGENTS, 3))), features.mixing(table))
    np.testing.assert_allclose((psi**2).sum(axis=1), 1.0)


def test_linear_features_keep_the_largest_eigenvalues():
    """Two clusters are two eigenvalues: half of the room that all agents would take is enough."""
    table = np.kron(np.eye(2), np.ones((4, 4)))[:AGENTS, :AGENTS]
    points = np.random.default_rng(5).standard_normal((POINTS, 3))
    assert features_of(Linear(3), "product", 6).error(table, points, Linear(3)) < 1e-12
