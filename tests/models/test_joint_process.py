"""One posterior over agents and points: by Schur's complement, by features, and by one solve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.streams import Streams
from fedbandits.models.agent_kernels import JointFeatures, composed
from fedbandits.models.joint_process import JointModel, JointProcess, Observations
from fedbandits.models.kernels import Linear, Matern, SquaredExponential
from fedbandits.models.ridge import RidgeModels

AGENTS, DIM = 4, 3
KERNELS = (Linear(DIM), SquaredExponential((0.6,) * DIM), Matern((1.0,) * DIM, 0.5))


def model_of(kernel, composition="product", ridge=0.5, capacity=10_000, features=0, same=False, extra=0):
    common = Streams(np.random.SeedSequence(0), AGENTS)
    made = JointFeatures(kernel, composition, features, AGENTS, common) if features else None
    return JointModel(kernel, composition, ridge, capacity, made, same, extra)


def table_of(rng):
    z = rng.standard_normal((AGENTS, 2))
    return SquaredExponential((1.0, 1.0)).matrix(z, z)


def data(rng, count):
    points = rng.standard_normal((count, DIM)) / 2
    seen = Observations(points, rng.standard_normal(count), np.arange(count), np.zeros((count, 0)))
    return rng.integers(AGENTS, size=count), seen


def direct(kernel, composition, table, ridge, sources, seen, place, x):
    """mu, sigma and log det(I + K/lambda) by one solve over the whole Gram matrix."""
    K = composed(composition, table[np.ix_(sources, sources)], kernel.matrix(seen.points, seen.points))
    k = composed(composition, table[sources, place][:, None], kernel.matrix(seen.points, x))
    own = composed(composition, table[place, place], kernel.diagonal(x))
    V = K + ridge * np.eye(len(K))
    variance = own - np.einsum("sk,sk->k", k, np.linalg.solve(V, k))
    return k.T @ np.linalg.solve(V, seen.rewards), np.sqrt(variance), np.linalg.slogdet(V / ridge)[1]


@given(
    st.integers(0, 2**32),
    st.sampled_from(KERNELS),
    st.sampled_from(["product", "sum", "kronecker"]),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_batches_by_schur_equal_one_solve(seed, kernel, composition, batches):
    rng = np.random.default_rng(seed)
    table, (sources, seen) = table_of(rng), data(rng, sum(batches))
    process = JointProcess(model_of(kernel, composition), np.arange(AGENTS), table)
    first = 0
    for batch in batches:
        rows = np.arange(first, first + batch)
        process.learn(sources[rows], seen.of(rows), more_to_come=False)
        first += batch
    x = rng.standard_normal((2, 6, DIM)) / 2
    places = np.array([2, 0])
    mean, deviation = process.posterior(places, x)
    for i, place in enumerate(places):
        mu, sigma, logdet = direct(kernel, composition, table, 0.5, sources, seen, place, x[i])
        np.testing.assert_allclose(mean[i], mu, atol=1e-9)
        np.testing.assert_allclose(deviation[i], sigma, atol=1e-8)
        assert process.logdet == pytest.approx(logdet, abs=1e-8)


@given(st.integers(0, 2**32), st.sampled_from(KERNELS), st.lists(st.integers(1, 90), min_size=2, max_size=4))
def test_how_observations_are_divided_does_not_matter_to_the_last_bit(seed, kernel, batches):
    rng = np.random.default_rng(seed)
    table, (sources, seen) = table_of(rng), data(rng, sum(batches))
    x = rng.standard_normal((1, 5, DIM))
    found = []
    for parts in (batches, [sum(batches)], [1] * sum(batches)):
        process = JointProcess(model_of(kernel), np.arange(AGENTS), table)
        for rows in np.split(np.arange(sum(batches)), np.cumsum(parts)[:-1]):
            process.learn(sources[rows], seen.of(rows), more_to_come=False)
        found.append((*process.posterior(np.array([1]), x), process.logdet))
    for mean, deviation, logdet in found[1:]:
        np.testing.assert_array_equal(mean, found[0][0])
        np.testing.assert_array_equal(deviation, found[0][1])
        assert logdet == found[0][2]


def test_a_linear_kernel_of_one_function_is_linucb():
    """The estimate and sigma = sqrt(lambda) ||x||_{V^-1} of ridge regression, exactly and by features."""
    rng = np.random.default_rng(0)
    sources, seen = data(rng, 50)
    x = rng.standard_normal((1, 6, DIM))
    ridge = RidgeModels(1, DIM, 0.5)
    zero = np.zeros(1, dtype=np.int64)
    for point, reward in zip(seen.points, seen.rewards, strict=True):
        ridge.learn(zero, point[None, None], zero, np.array([reward]))
    V = ridge.matrices()[0]
    for features in (0, DIM):
        model = model_of(Linear(DIM), features=features, same=True)
        process = JointProcess(model, np.arange(AGENTS), np.ones((AGENTS, AGENTS)))
        process.learn(sources, seen, more_to_come=False)
        assert process.summed == bool(features)
        mean, deviation = process.posterior(zero, x)
        np.testing.assert_allclose(mean[0], x[0] @ ridge.theta[0], atol=1e-10)
        norms = np.sqrt(np.einsum("kd,kd->k", x[0], np.linalg.solve(V, x[0].T).T))
        np.testing.assert_allclose(deviation[0], np.sqrt(0.5) * norms, atol=1e-10)
        assert process.logdet == pytest.approx(np.linalg.slogdet(V / 0.5)[1])


def test_linear_features_of_different_agents_are_the_exact_process():
    rng = np.random.default_rng(1)
    table, (sources, seen) = table_of(rng), data(rng, 60)
    x = rng.standard_normal((AGENTS, 5, DIM))
    found = []
    for features in (0, DIM * AGENTS):
        process = JointProcess(model_of(Linear(DIM), features=features), np.arange(AGENTS), table)
        process.learn(sources, seen, more_to_come=False)
        found.append((*process.posterior(np.arange(AGENTS), x), process.logdet))
    for exact, summed in zip(*found, strict=True):
        np.testing.assert_allclose(exact, summed, atol=1e-9)


def test_beyond_its_capacity_a_process_goes_on_with_features_of_all_it_knew():
    rng = np.random.default_rng(2)
    kernel, table, (sources, seen) = SquaredExponential((1.0,) * DIM), table_of(rng), data(rng, 90)
    process = JointProcess(model_of(kernel, capacity=50, features=64), np.arange(AGENTS), table)
    for rows in np.split(np.arange(90), 9):
        process.learn(sources[rows], seen.of(rows), more_to_come=False)
        assert process.summed == (rows[-1] >= 50)
    features = process.model.features
    psi = features.joined(features.of_points(seen.points), features.mixing(table)[sources])
    V = psi.T @ psi + 0.5 * np.eye(64)
    x = rng.standard_normal((1, 5, DIM))
    shown = features.joined(features.of_points(x[0]), features.mixing(table)[np.full(5, 3)])
    mean, deviation = process.posterior(np.array([3]), x)
    np.testing.assert_allclose(mean[0], shown @ np.linalg.solve(V, psi.T @ seen.rewards), atol=1e-9)
    variance = 0.5 * np.einsum("kd,dk->k", shown, np.linalg.solve(V, shown.T))
    np.testing.assert_allclose(deviation[0], np.sqrt(variance), atol=1e-9)
    assert process.kept == 0
    assert process.count == 90


def test_many_features_are_nearly_the_exact_process():
    """Quantities move by about what the kernel is off: 1/sqrt(D)."""
    rng = np.random.default_rng(3)
    kernel, table, (sources, seen) = SquaredExponential((1.0,) * DIM), table_of(rng), data(rng, 80)
    x = rng.standard_normal((1, 20, DIM)) / 2
    exact = JointProcess(model_of(kernel), np.arange(AGENTS), table)
    exact.learn(sources, seen, more_to_come=False)
    off = []
    for size in (128, 2048):
        process = JointProcess(model_of(kernel, capacity=1, features=size), np.arange(AGENTS), table)
        process.learn(sources, seen, more_to_come=False)
        pairs = zip(process.posterior(np.zeros(1, int), x), exact.posterior(np.zeros(1, int), x), strict=True)
        off.append(max(np.abs(one - other).max() for one, other in pairs))
    assert off[1] < 0.1
    assert off[1] < off[0] / 2


def test_another_kernel_over_agents_is_as_if_it_had_been_there_from_the_beginning():
    rng = np.random.default_rng(4)
    kernel, before, after = SquaredExponential((0.8,) * DIM), table_of(rng), table_of(rng)
    sources, seen = data(rng, 70)
    x = rng.standard_normal((1, 5, DIM))
    for settings in ({}, {"capacity": 30, "features": 32}):
        revised = JointProcess(model_of(kernel, **settings), np.arange(AGENTS), before)
        revised.learn(sources, seen, more_to_come=True)
        revised.revise(after, None, more_to_come=False)
        fresh = JointProcess(model_of(kernel, **settings), np.arange(AGENTS), after)
        fresh.learn(sources, seen, more_to_come=False)
        for one, other in zip(
            revised.posterior(np.zeros(1, int), x), fresh.posterior(np.zeros(1, int), x), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_without_features_a_full_process_says_what_to_do():
    rng = np.random.default_rng(5)
    process = JointProcess(model_of(KERNELS[1], capacity=10), np.arange(AGENTS), table_of(rng))
    with pytest.raises(ConfigError, match=r"capacity: .* raise capacity.* or say features=256"):
        process.check(11)
    process.check(10)


def test_bands_cover_the_function_for_all_turns_at_once():
    """Lemma 8.1: |F - mu| <= sigma (B + R sqrt(log det(I + K/lambda) + 2 log(1/delta)) / sqrt(lambda)), in all but a
    share delta of runs; F has norm 1 in the space of the joint kernel. Without company the bound is the same.
    """
    rng, kernel, delta, noise, ridge = np.random.default_rng(6), SquaredExponential((0.5,) * DIM), 0.1, 0.3, 0.5
    missed, tightest = 0, np.inf
    for _ in range(60):
        table, (sources, seen) = table_of(rng), data(rng, 60)
        centres, whose = rng.standard_normal((10, DIM)) / 2, rng.integers(AGENTS, size=10)
        alpha = rng.standard_normal(10)
        alpha /= np.sqrt(alpha @ (table[np.ix_(whose, whose)] * kernel.matrix(centres, centres)) @ alpha)
        values = (table[np.ix_(sources, whose)] * kernel.matrix(seen.points, centres)) @ alpha
        seen = seen._replace(rewards=values + noise * rng.standard_normal(60))
        process = JointProcess(model_of(kernel, ridge=ridge), np.arange(AGENTS), table)
        x = rng.standard_normal((1, 30, DIM)) / 2
        truth = (table[2, whose] * kernel.matrix(x[0], centres)) @ alpha
        outside = False
        for rows in np.split(np.arange(60), 6):
            process.learn(sources[rows], seen.of(rows), more_to_come=False)
            mean, deviation = process.posterior(np.array([2]), x)
            width = 1 + noise / np.sqrt(ridge) * np.sqrt(process.logdet + 2 * np.log(1 / delta))
            outside |= bool((np.abs(mean[0] - truth) > width * deviation[0]).any())
            tightest = min(tightest, (width * deviation[0] - np.abs(mean[0] - truth)).min())
        missed += outside
    assert missed <= 6 + 3 * np.sqrt(60 * 0.1 * 0.9)
    assert tightest < 1  # bands are not so wide that they say nothing
