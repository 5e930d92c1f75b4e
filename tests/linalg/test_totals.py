"""Sums and means over agents in one pass, held against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg.totals import mean_of, total_of


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
