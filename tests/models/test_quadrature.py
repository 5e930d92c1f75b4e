"""Quadrature features: their kernel against the kernel, the weights they are made of, and how few there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite import hermgauss

from fedbandits.contract.errors import ConfigError
from fedbandits.facts import RKHS
from fedbandits.models.features.quadrature import QuadratureFeatures, printed_error, quadrature_features
from fedbandits.models.kernels import SquaredExponential

UNIT = SquaredExponential((1.0, 1.0))
ONE = np.zeros(1, dtype=np.int64)


def shown(features, points):
    """(m, p)."""
    return features.of(ONE, points[None])[0]


def by_definition(scales, m, points):
    """All m^d nodes, cosines then sines, as the thesis' definition 7.4 would have it without its misprints."""
    zeros, weights = hermgauss(m)
    nodes = np.stack(np.meshgrid(*[math.sqrt(2) * zeros / scale for scale in scales], indexing="ij"), -1)
    shares = np.stack(np.meshgrid(*[weights / math.sqrt(math.pi)] * len(scales), indexing="ij"), -1)
    phases = points @ nodes.reshape(-1, len(scales)).T
    roots = np.sqrt(shares.reshape(-1, len(scales)).prod(axis=1))
    return np.concatenate([roots * np.cos(phases), roots * np.sin(phases)], axis=1)


def largest_error(features, kernel, points):
    phi = shown(features, points)
    return np.abs(phi @ phi.T - kernel.matrix(points, points)).max()


def grid(low, high, steps=15):
    axis = np.linspace(low, high, steps)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)


SPHERE = 2 * np.stack([np.cos(np.linspace(0, 2 * np.pi, 240)), np.sin(np.linspace(0, 2 * np.pi, 240))], axis=1)


@pytest.mark.parametrize(
    ("m", "points", "at_random", "anywhere"),
    [
        (4, grid(0, 1), 4.5e-4, 5.72e-4),
        (6, grid(0, 1), 1.1e-6, 1.44e-6),
        (8, grid(0, 1), 1.4e-9, 1.84e-9),
        (8, SPHERE, 0.09, 0.182),
        (12, SPHERE, 1.2e-3, 4.54e-3),
        (16, SPHERE, 4e-6, 2.98e-5),
    ],
)
def test_errors_are_those_of_the_table(m, points, at_random, anywhere):
    """What was found beforehand among random points of the unit square and of the ball of radius 2; the largest error
    is between opposite corners of the one and opposite points of the other, and is larger.
    """
    found = largest_error(QuadratureFeatures(UNIT, (m, m)), UNIT, points)
    assert found == pytest.approx(anywhere, rel=5e-3)
    assert at_random < found < 8 * at_random


@settings(max_examples=40, deadline=None)
@given(
    scales=st.lists(st.floats(0.3, 3), min_size=1, max_size=3),
    m=st.integers(1, 6),
    seed=st.integers(0, 999),
)
def test_one_of_each_pair_of_waves_says_the_same_as_both(scales, m, seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (9, len(scales)))
    features = QuadratureFeatures(SquaredExponential(tuple(scales)), [m] * len(scales))
    ours, all_of_them = shown(features, points), by_definition(scales, m, points)
    assert features.size == m ** len(scales)
    assert all_of_them.shape[1] == 2 * features.size
    np.testing.assert_allclose(ours @ ours.T, all_of_them @ all_of_them.T, atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(
    scales=st.lists(st.floats(0.3, 3), min_size=1, max_size=3),
    additive=st.booleans(),
    error=st.sampled_from([0.3, 0.1, 0.01, 1e-4]),
    low=st.floats(-2, 0),
    extent=st.floats(0.1, 2),
    seed=st.integers(0, 999),
)
def test_the_target_is_kept_in_the_box_and_norms_are_one_everywhere(scales, additive, error, low, extent, seed):
    known = RKHS(tuple(scales), additive=additive, low=low, high=low + extent)
    features, told = quadrature_features(known, len(scales), error)
    kernel = SquaredExponential(tuple(scales), additive)
    rng = np.random.default_rng(seed)
    points = rng.uniform(low, low + extent, (60, len(scales)))
    corners = np.where(rng.random((8, len(scales))) < 0.5, low, low + extent)
    assert largest_error(features, kernel, np.concatenate([points, corners])) <= told + 1e-12
    assert told <= error
    far = shown(features, rng.normal(scale=100, size=(20, len(scales))))
    np.testing.assert_allclose(np.linalg.norm(far, axis=1), 1.0, atol=1e-13)


@pytest.mark.parametrize("m", [1, 2, 5, 12, 40])
def test_weights_sum_to_one(m):
    frequencies, weights = SquaredExponential.waves(m)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(frequencies, -frequencies[::-1], atol=1e-13)
    if m > 1:
        assert (weights * frequencies**2).sum() == pytest.approx(1.0, abs=1e-10)  # the density's variance


@pytest.mark.parametrize("m", [4, 6, 8, 10])
@pytest.mark.parametrize("scale", [0.8, 1.0, 1.5])
def test_the_printed_bound_holds(m, scale):
    kernel = SquaredExponential((scale, scale))
    measured = largest_error(QuadratureFeatures(kernel, (m, m)), kernel, grid(0, 1))
    assert measured <= printed_error(m, 1 / scale, 2) + 1e-15


def test_the_target_needs_far_fewer_features_than_the_thesis_takes():
    known = RKHS(1.0, low=-2.0, high=2.0)
    sizes = [quadrature_features(known, 2, error)[0].size for error in (0.1, 0.01, 1e-3)]
    assert sizes == sorted(sizes)
    assert sizes[-1] < 100
    assert 2 * (6 * math.log(1024)) ** 2 == pytest.approx(3459, abs=1)


def test_additive_kernels_take_as_many_features_for_each_coordinate():
    sizes = [quadrature_features(RKHS(0.3, additive=True), d, 0.01)[0].size for d in (2, 10, 20)]
    assert sizes[1] == pytest.approx(5 * sizes[0], rel=0.1)
    assert sizes[2] == pytest.approx(10 * sizes[0], rel=0.1)


def test_what_takes_too_many_is_refused():
    with pytest.raises(ConfigError, match="allow a larger error, or use an additive kernel"):
        quadrature_features(RKHS(0.2), 6, 0.01)
    with pytest.raises(ConfigError, match="use longer length scales"):
        quadrature_features(RKHS(0.001), 1, 0.01)
    with pytest.raises(ConfigError, match="2 lengthscales are told for arms of dimension 3"):
        quadrature_features(RKHS((1.0, 2.0)), 3, 0.01)


def test_an_arm_has_the_same_features_wherever_it_stands():
    features, _ = quadrature_features(RKHS((0.5, 1.0, 2.0)), 3, 0.01)
    arms = np.random.default_rng(0).uniform(size=(4, 13, 3))
    together = features.of(np.arange(4), arms)
    for i in range(4):
        for k in range(13):
            alone = features.of(ONE, arms[i : i + 1, k : k + 1])
            np.testing.assert_array_equal(alone[0, 0], together[i, k])
