"""Beginnings of networks, and tangent features."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.contract.streams import Streams
from fedbandits.models.features.tangent import TangentFeatures
from fedbandits.models.networks import Architecture, gaussian, outputs, symmetric


def doubled(rng, count, raw):
    x = rng.standard_normal((count, raw))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.hstack([x, x]) / np.sqrt(2)


@pytest.mark.parametrize("hidden", [(20,), (16, 16)])
def test_a_symmetric_network_is_zero_on_doubled_contexts(hidden):
    network = Architecture(8, hidden, scale=np.sqrt(hidden[0]))
    rng = np.random.default_rng(0)
    theta = symmetric(network, rng)[None]
    x = doubled(rng, 50, 4)[None]
    assert np.abs(outputs(network, theta, np.array([0]), x)).max() < 1e-12
    assert np.abs(outputs(network, theta, np.array([0]), rng.standard_normal(x.shape))).max() > 1e-3


def test_tangent_features_have_a_squared_norm_of_two_on_average():
    m, rng = 20, np.random.default_rng(1)
    network = Architecture(10, (m,), scale=np.sqrt(m))
    x = doubled(rng, 20, 5)[None]
    norms = [
        (TangentFeatures(network, symmetric(network, rng), np.sqrt(m)).of(np.array([0]), x) ** 2).sum(axis=2).mean()
        for _ in range(400)
    ]
    # 400 draws of the network: the standard error is 0.03
    assert np.std(norms) / 20 < 0.04
    assert np.mean(norms) == pytest.approx(2.0, abs=0.12)


def test_tangent_features_are_linear_in_the_network_nearby():
    network = Architecture(3, (6,), biased=True)
    rng = np.random.default_rng(2)
    theta = gaussian(network, rng, [0.7, 0.7])
    x = rng.standard_normal((1, 5, 3))
    phi = TangentFeatures(network, theta).of(np.array([0]), x)
    move = 1e-6 * rng.standard_normal(network.parameters)
    row = np.array([0])
    change = outputs(network, (theta + move)[None], row, x) - outputs(network, theta[None], row, x)
    np.testing.assert_allclose(phi @ move, change, rtol=1e-4, atol=1e-10)


def test_symmetric_networks_have_no_biases_and_even_widths():
    rng = np.random.default_rng(0)
    for network in (Architecture(4, (6,), biased=True), Architecture(3, (6,)), Architecture(4, (5,))):
        with pytest.raises(ValueError, match="even widths and no biases"):
            symmetric(network, rng)


def test_normals_have_the_deviations_of_their_layers():
    network = Architecture(30, (40, 50), biased=True)
    theta = gaussian(network, np.random.default_rng(3), (2.0, 0.5, 3.0), last_bias=False)
    deviations = [matrix.std() for matrix in network.matrices(theta)]
    np.testing.assert_allclose(deviations, (2.0, 0.5, 3.0), rtol=0.25)
    np.testing.assert_allclose(deviations[:2], (2.0, 0.5), rtol=0.06)
    assert theta[-1] == 0.0


def test_a_federation_has_one_beginning():
    network = Architecture(4, (6,))
    common = np.random.SeedSequence(9)
    first, second = (Streams(np.random.SeedSequence(1), identities=np.array([who]), common=common) for who in (0, 5))
    np.testing.assert_array_equal(
        symmetric(network, first.common("network")), symmetric(network, second.common("network"))
    )
