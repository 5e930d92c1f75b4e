"""Sums to which no observation adds more than it may."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.models.features.last_layer import LastLayer
from fedbandits.models.networks import Architecture, feature_sums, gradient_sums, gradients, hidden, outputs
from fedbandits.models.networks.cut_sums import cut_feature_sums, cut_gradient_sums
from fedbandits.models.observations import Observations

NETWORK = Architecture(3, (4,), biased=True)
WHO = np.array([0, 1])


def observed(seed: int, counts: tuple[int, int] = (300, 7)) -> tuple[Observations, np.ndarray, dict[str, np.ndarray]]:
    """What two agents have seen, parameters of each, and units of rewards."""
    rng = np.random.default_rng(seed)
    data = Observations(2, 3, 300)
    data.arms[:], data.rewards[:] = rng.normal(size=data.arms.shape), rng.normal(size=data.rewards.shape)
    data.count[:] = data.given[:] = counts
    units = {"shift": np.array([0.3, -0.2]), "spread": np.array([0.7, 1.5])}
    return data, rng.normal(size=(2, NETWORK.parameters)), units


def test_what_is_short_enough_is_summed_as_it_is():
    data, theta, units = observed(0)
    summed = cut_gradient_sums(NETWORK, theta, data, WHO, data.given, cut=1e9, **units)
    np.testing.assert_allclose(summed, gradient_sums(NETWORK, theta, data, WHO, data.given, **units), atol=1e-9)
    found = cut_feature_sums(NETWORK, theta, data, WHO, data.given, cut=1e9, **units)
    for one, other in zip(found, feature_sums(NETWORK, theta, data, WHO, data.given, **units), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), cut=st.floats(0.05, 20.0))
def test_no_observation_adds_more_than_it_may(seed, cut):
    """Held against every observation by itself, from outputs, gradients and layers."""
    data, theta, units = observed(seed, (5, 3))
    slopes = cut_gradient_sums(NETWORK, theta, data, WHO, data.given, cut=cut, **units)
    gram, moment = cut_feature_sums(NETWORK, theta, data, WHO, data.given, cut=cut, **units)
    for row in WHO:
        x = data.arms[row, :, : data.given[row]].T
        y = (data.rewards[row, : data.given[row]] - units["shift"][row]) / units["spread"][row]
        slope, features = np.zeros(NETWORK.parameters), np.zeros((len(x), NETWORK.features))
        for place, (one, target) in enumerate(zip(x, y, strict=True)):
            alone = one[None, None], theta[row : row + 1], np.zeros(1, dtype=np.int64)
            gap = outputs(NETWORK, alone[1], alone[2], alone[0])[0, 0] - target
            g = gap * gradients(NETWORK, alone[1], alone[2], alone[0])[0, 0]
            z = hidden(NETWORK, alone[1], alone[2], alone[0])[0, 0]
            slope += g * min(1.0, cut / np.linalg.norm(g))
            features[place] = z * min(1.0, cut / np.linalg.norm(z))
        np.testing.assert_allclose(slopes[row], slope, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gram[row], features.T @ features, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moment[row], y @ features, rtol=1e-9, atol=1e-9)
        assert np.linalg.norm(slopes[row]) <= cut * len(x) * (1 + 1e-9)
        assert np.trace(gram[row]) <= cut**2 * len(x) * (1 + 1e-9)
        np.testing.assert_array_equal(gram[row], gram[row].T)


def test_an_agent_alone_computes_the_same_bits():
    data, theta, units = observed(3)
    alone = Observations(1, 3, 300)
    alone.arms[:], alone.rewards[:] = data.arms[1:], data.rewards[1:]
    mine = {name: array[1:] for name, array in units.items()}
    for sums in (cut_gradient_sums, cut_feature_sums):
        both = sums(NETWORK, theta, data, WHO, data.given, cut=1.0, **units)
        one = sums(NETWORK, theta[1:], alone, np.zeros(1, dtype=np.int64), data.given[1:], cut=1.0, **mine)
        pairs = zip(both, one, strict=True) if isinstance(both, tuple) else [(both, one)]
        for ours, theirs in pairs:
            assert ours[1].tobytes() == theirs[0].tobytes()


@pytest.mark.parametrize("cut", [0.5, 100.0])
def test_features_are_those_that_are_summed(cut):
    data, theta, _ = observed(1)
    layer = LastLayer(NETWORK, theta[0], 1, cut)
    x = data.arms[0, :, :20].T[None]
    z = layer.of(np.zeros(1, dtype=np.int64), x)[0]
    plain = hidden(NETWORK, theta[:1], np.zeros(1, dtype=np.int64), x)[0]
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(z, plain * np.minimum(1.0, cut / lengths), rtol=1e-12)
