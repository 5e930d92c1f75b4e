"""Sums and means over agents in one pass, held against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg.totals import mean_of, total_of, total_with_squares


@pytest.mark.parametrize("shape", [(1, 5), (3, 40, 40), (4, 1024), (2, 7, 3, 2)])
def test_sums_and_means_are_numpys(shape):
    """Pieces that are full and not, one agent and several; shares that lie in memory in another order."""
    rng = np.random.default_rng(0)
    shares, total, mean = rng.standard_normal(shape), rng.standard_normal(shape[1:]), np.empty(shape[1:])
    for held in (shares, np.asfortranarray(shares)):
        grown = np.empty(shape[1:])
        total_of(total, held, grown)
        mean_of(held, mean)
        np.testing.assert_allclose(grown, total + shares.sum(axis=0), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(mean, shares.mean(axis=0), rtol=1e-13, atol=1e-13)


def test_shares_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="do not add up"):
        total_of(np.zeros(3), np.zeros((2, 4)), np.zeros(3))
    with pytest.raises(ValueError, match="do not add up"):
        total_of(np.zeros(4), np.zeros((2, 3)), np.zeros(3))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (2, 13), (5, 241)])
def test_squares_that_nobody_writes_down_add_up_to_the_same_bits(n, d):
    rng = np.random.default_rng(n)
    x, before = rng.standard_normal((n, d)), rng.standard_normal((d, d))
    written, found = np.empty((d, d)), np.empty((d, d))
    total_of(before, x[:, :, None] * x[:, None, :], written)
    total_with_squares(before, x, found)
    np.testing.assert_array_equal(found, written)
    with pytest.raises(ValueError, match="do not add up"):
        total_with_squares(np.zeros((d + 1, d + 1)), x, found)
