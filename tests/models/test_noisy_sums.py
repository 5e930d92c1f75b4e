"""Reading noisy sums: against dense formulas, and against what noise does when it is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Noise, Norms, Perturbation
from fedbandits.contract.problem import Problem
from fedbandits.models.noisy_sums import RISK, Discounted, Reading, Regularised, reach, reading

DIM = 4
PROBLEM = Problem(agents=20, dim=DIM, arms=5, horizon=500).knowing(Noise(0.5), Norms(1.0, 1.0))
NOISY = PROBLEM.knowing(Perturbation(matrix=30.0, vector=25.0, agents=20, releases=8))


def symmetric(rng: np.random.Generator, deviation: float, rows: int, dim: int = DIM) -> FloatArray:
    """(rows, d, d) symmetric noise, sqrt(2) times as large on the diagonal."""
    drawn = rng.standard_normal((rows, dim, dim))
    return np.asarray(deviation * (drawn + drawn.swapaxes(1, 2)) / math.sqrt(2))


def read_as(problem: Problem, kind: type) -> Reading:
    found = reading(problem, DIM)
    assert isinstance(found, kind)
    return found


def test_exact_sums_are_not_read_at_all():
    assert reading(PROBLEM, DIM) is None
    assert reading(PROBLEM.knowing(Perturbation(matrix=0.0, vector=0.0)), DIM) is None


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(1e-3, 1e6))
def test_what_is_read_is_the_formula_and_semidefinite(seed, size):
    rng = np.random.default_rng(seed)
    read = read_as(NOISY, Discounted)
    assert isinstance(read, Discounted)
    gram, moment = symmetric(rng, size, 3), size * rng.standard_normal((3, DIM))
    matrix, vector = read.read(gram, moment)
    assert vector is not None
    np.testing.assert_array_equal(matrix, matrix.swapaxes(1, 2))
    assert (np.linalg.eigvalsh(matrix) >= -1e-9 * np.abs(matrix).max()).all()
    for row in range(3):
        values, vectors = np.linalg.eigh(gram[row] + read.shift * np.eye(DIM))
        V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        share = V @ np.linalg.inv(V + read.discount * np.eye(DIM))
        scale = max(1.0, np.abs(gram[row]).max())
        np.testing.assert_allclose(matrix[row], share @ V, atol=1e-9 * scale)
        np.testing.assert_allclose(vector[row], share @ moment[row], atol=1e-9 * scale)


@pytest.mark.parametrize("problem", [NOISY, NOISY.knowing(Perturbation(30.0, 25.0, 20, 8, printed=5.0))])
def test_one_pool_for_everybody_is_read_once_and_alike(problem):
    rng = np.random.default_rng(0)
    read = reading(problem, DIM)
    assert read is not None
    gram, moment = symmetric(rng, 100.0, 3), rng.standard_normal((3, DIM))
    alone = read.read(gram[1:2], moment[1:2])
    for shown in (
        tuple(array[1] for array in read.read(gram, moment)),
        tuple(
            array[4]
            for array in read.read(np.broadcast_to(gram[1], (6, DIM, DIM)), np.broadcast_to(moment[1], (6, DIM)))
        ),
    ):
        for one, other in zip(alone, shown, strict=True):
            np.testing.assert_array_equal(one[0], other)
    assert read.read(gram, None)[1] is None


def test_spectra_stay_within_reach():
    """The bound on the largest eigenvalue is exceeded no more often than it says."""
    rng = np.random.default_rng(1)
    for dim in (2, 10):
        largest = np.linalg.eigvalsh(symmetric(rng, 3.0, 4000, dim))[:, -1]
        for risk in (0.5, 0.05):
            assert (largest > reach(3.0, dim, risk)).mean() <= risk
        assert largest.max() > 0.8 * reach(3.0, dim, 0.05), "the bound is far from what happens"


def sums(rng: np.random.Generator, rows: int, turns: int, told: Perturbation, noise: float) -> tuple[FloatArray, ...]:
    """theta* (d,), noisy gram matrices (rows, d, d) and moments (rows, d) of the same arms."""
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    x = rng.standard_normal((turns, DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    rewards = x @ theta + noise * rng.standard_normal((rows, turns))
    gram = x.T @ x + symmetric(rng, told.matrix, rows)
    return theta, gram, rewards @ x + told.vector * rng.standard_normal((rows, DIM))


@pytest.mark.parametrize("turns", [20, 1000, 10_000])
def test_the_radius_covers(turns):
    rng = np.random.default_rng(turns)
    read = read_as(NOISY, Discounted)
    assert isinstance(read, Discounted)
    theta, gram, moment = sums(rng, 400, turns, read.told, 0.5)
    matrix, vector = read.read(gram, moment)
    assert vector is not None
    V = matrix + np.eye(DIM)
    off = np.linalg.solve(V, vector[..., None])[..., 0] - theta
    distance = np.sqrt(np.einsum("wi,wij,wj->w", off, V, off))
    radius = read.radius(0.1, 1.0, np.linalg.slogdet(V)[1], own=0.0)
    assert (distance <= radius).mean() >= 0.9
    assert distance.max() > 0.1 * radius[0], "the radius is far from what happens"


def test_what_is_read_counts_for_what_it_tells():
    """With much data the error of K^-1 m has the covariance R^2 K^-1 that clean observations with the matrix K would
    have: its square in the norm of K is R^2 d on average, less what the allowances for single entries leave.
    """
    rng = np.random.default_rng(5)
    read = read_as(NOISY, Discounted)
    assert isinstance(read, Discounted)
    theta, gram, moment = sums(rng, 2000, 10_000, read.told, 0.5)
    matrix, vector = read.read(gram - read.shift * np.eye(DIM), moment)  # without the bias of the shift
    assert vector is not None
    off = np.linalg.solve(matrix, vector[..., None])[..., 0] - theta
    square = np.einsum("wi,wij,wj->w", off, matrix, off).mean() / (0.5**2 * DIM)
    iso = 25.0**2 + 30.0**2 * (1 + 1 / DIM)  # of an entry of h - N theta*, against 25^2 + 2 30^2 allowed for
    share = (0.25 * 10_000 / DIM + iso) / (0.25 * 10_000 / DIM + read.entry**2)
    assert square == pytest.approx(share, rel=0.05)


def test_printed_regularisers_bound_what_noise_adds():
    told = Perturbation(matrix=30.0 * math.sqrt(20), vector=25.0, agents=20, releases=8, printed=60.0)
    read = read_as(PROBLEM.knowing(told), Regularised)
    low, high = read.regularisers or (0.0, 0.0)
    assert high == 3 * low
    noise = symmetric(np.random.default_rng(2), told.matrix, 500)
    matrix, _ = read.read(noise, None)
    spectrum = np.linalg.eigvalsh(matrix)
    assert (spectrum >= 20 * low).all()
    assert (spectrum <= 20 * high).all()


def test_sums_that_were_mended_count_for_less():
    plain, mended = read_as(NOISY, Discounted), reading(NOISY, DIM, mended=True)
    assert isinstance(plain, Discounted)
    assert isinstance(mended, Discounted)
    assert plain.doubt == 1 < mended.doubt
    gram = 1000.0 * np.eye(DIM)[None]
    lifted = (1000.0 + plain.shift) * np.eye(DIM)[None]
    assert np.trace(mended.read(lifted, None)[0][0]) < np.trace(plain.read(gram, None)[0][0])


def test_the_shift_is_what_noise_seldom_reaches_beyond():
    read = read_as(NOISY, Discounted)
    assert isinstance(read, Discounted)
    lowest = np.linalg.eigvalsh(symmetric(np.random.default_rng(3), 30.0, 4000))[:, 0]
    assert (lowest < -read.shift).mean() <= RISK
