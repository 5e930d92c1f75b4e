"""Losses, gradients and Hessians of generalized models beside what their definition gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from fedbandits.linalg.links import MeanFunction
from fedbandits.models.observations import BLOCK, Observations

D = 3
MEANS = {"logistic": special.expit, "probit": stats.norm.cdf, "poisson": np.exp, "identity": lambda z: z}
SLOPES = {
    "logistic": lambda z: special.expit(z) * special.expit(-z),
    "probit": stats.norm.pdf,
    "poisson": np.exp,
    "identity": np.ones_like,
}
CUMULANTS = {
    "logistic": lambda z: np.logaddexp(0.0, z),
    "probit": lambda z: z * stats.norm.cdf(z) + stats.norm.pdf(z),
    "poisson": np.exp,
    "identity": lambda z: z**2 / 2,
}


@pytest.mark.parametrize("link", MEANS)
@pytest.mark.parametrize("size", [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_curvatures_are_those_of_the_definition(link, size):
    rng = np.random.default_rng(size)
    data = Observations(2, D, size)
    theta = rng.standard_normal((2, D))
    for _ in range(size):
        data.keep(np.arange(2), rng.standard_normal((2, D)), rng.integers(0, 2, 2).astype(float))
    data.give(np.array([1]))
    for given in (False, True):
        loss, gradient, hessian = data.curvatures(MeanFunction(link), np.arange(2), theta, given=given)
        for i in range(2):
            count = size if i == 1 or not given else 0
            x, y = data.arms[i, :, :count].T, data.rewards[i, :count]
            z = x @ theta[i]
            np.testing.assert_allclose(loss[i], (CUMULANTS[link](z) - y * z).sum(), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(gradient[i], x.T @ (MEANS[link](z) - y), rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(hessian[i], (x.T * SLOPES[link](z)) @ x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("score", [-800.0, -40.0, 0.0, 40.0, 800.0])
def test_clicks_that_were_certain_or_out_of_the_question(score):
    """Nothing over- or underflows, however sure the model was of all of a block."""
    data = Observations(1, 1, BLOCK)
    for _ in range(BLOCK):
        data.keep(np.array([0]), np.array([[1.0]]), np.array([1.0]))
    loss, gradient, hessian = data.curvatures(MeanFunction("logistic"), np.array([0]), np.array([[score]]), given=False)
    np.testing.assert_allclose(loss[0], BLOCK * np.logaddexp(0.0, -score), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(gradient[0, 0], -BLOCK * special.expit(-score), rtol=1e-12, atol=1e-13)
    assert np.isfinite(hessian).all()
