"""How alike agents are, by mean embeddings: against sums written out, and against what theory says of the bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.models.embeddings import Samples, discrepancies
from fedbandits.models.kernels import Linear, Matern, SquaredExponential

KERNELS = (Linear(3), SquaredExponential((0.7, 1.0, 1.5)), Matern((1.0,) * 3, 1.5))


def by_hand(kernel, x, y):
    """MMD^2 with the sums of the thesis, and the 1/t^2 that it leaves out."""

    def total(a, b):
        return sum(float(kernel.matrix(p[None], q[None])[0, 0]) for p in a for q in b)

    return total(x, x) / len(x) ** 2 + total(y, y) / len(y) ** 2 - 2 * total(x, y) / (len(x) * len(y))


@given(st.integers(0, 2**32), st.sampled_from(KERNELS), st.integers(1, 6), st.integers(1, 6))
def test_mmd_is_the_sum_that_is_printed_over_t_squared(seed, kernel, r, s):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((r, 3)), 1.0 + rng.standard_normal((s, 3))
    found = discrepancies(kernel, [x, y])
    np.testing.assert_allclose(found[0, 1], by_hand(kernel, x, y), atol=1e-12)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(np.diag(found), 0, atol=1e-12)


def test_of_a_linear_kernel_it_is_the_distance_of_means():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((5, 3)) + shift for shift in (0.0, 1.0, 3.0)]
    means = np.array([block.mean(axis=0) for block in blocks])
    wanted = ((means[:, None] - means[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(discrepancies(Linear(3), blocks), wanted, atol=1e-12)


def test_of_one_law_it_is_two_over_r():
    """E MMD^2 = 2 (1 - E k) / r for two samples of r points of one law, k(x, x) being 1."""
    rng, kernel, r = np.random.default_rng(1), SquaredExponential((1.0, 1.0)), 8
    found = [discrepancies(kernel, list(rng.standard_normal((2, r, 2))))[0, 1] for _ in range(600)]
    expected = 2 * (1 - 1 / 3) / r  # E exp(-|x - y|^2 / 2) of normal x and y in two dimensions
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(len(found))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_likeness_is_a_kernel_over_agents(squared, kernel):
    rng = np.random.default_rng(2)
    samples = Samples(kernel)
    blocks = [rng.standard_normal((4 + v, 3)) + 0.3 * v for v in range(12)]
    group = np.array([samples.add(v, block) for v, block in enumerate(blocks)])
    (table,) = samples.alike([group], 0.8, squared)
    distance = discrepancies(kernel, blocks)
    wanted = np.exp(-(distance if squared else np.sqrt(distance)) / (2 * 0.8**2))
    np.testing.assert_allclose(table, wanted, rtol=1e-12)
    assert np.linalg.eigvalsh(table).min() > -1e-12


def test_who_else_is_asked_about_does_not_matter_to_the_last_bit():
    rng, kernel = np.random.default_rng(3), SquaredExponential((0.9,) * 3)
    blocks = {v: rng.standard_normal((5, 3)) for v in range(6)}
    together = Samples(kernel)
    groups = [np.array([together.add(v, blocks[v]) for v in members]) for members in ([0, 5], [0, 3, 5], [1, 3, 5])]
    alone = Samples(kernel)
    found = together.alike(groups, 1.0, False)[2]
    again = alone.alike([np.array([alone.add(v, blocks[v]) for v in (1, 3, 5)])], 1.0, False)[0]
    np.testing.assert_array_equal(found, again)


def test_of_whom_nothing_was_heard_is_like_itself_alone():
    samples = Samples(Linear(2))
    group = np.array([samples.add(0, np.ones((3, 2))), samples.add(1, np.zeros((0, 2)))])
    np.testing.assert_array_equal(samples.alike([group], 1.0, False)[0], np.eye(2))
