"""Quantiles inside compiled functions are scipy's, bit by bit."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtri

from fedbandits.linalg.jit import jit
from fedbandits.linalg.quantiles import address_of, beta_quantile, normal_quantile


@jit
def normals(address, levels):
    found = np.empty(len(levels))
    for at in range(len(levels)):
        found[at] = normal_quantile(address, levels[at])
    return found


@jit
def betas(address, wins, losses, levels):
    found = np.empty(len(levels))
    for at in range(len(levels)):
        found[at] = beta_quantile(address, wins[at], losses[at], levels[at])
    return found


def test_normal_quantiles():
    levels = np.concatenate([np.random.default_rng(0).random(20_000), [0.0, 1.0, 0.5, 1e-300, 1 - 2.0**-53]])
    assert np.array_equal(normals(address_of("normal"), levels), ndtri(levels))


def test_beta_quantiles():
    rng = np.random.default_rng(1)
    wins, losses = (1.0 + rng.integers(0, 200, 3000) for _ in range(2))
    levels = rng.random(3000)
    assert np.array_equal(betas(address_of("beta"), wins, losses, levels), betaincinv(wins, losses, levels))
