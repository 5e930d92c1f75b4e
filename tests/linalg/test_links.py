"""Mean functions against scipy, and their derivatives and integrals against numerical ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from fedbandits.linalg.links import MeanFunction, cumulant, mean, means, slope

EXACT = {"logistic": expit, "probit": norm.cdf, "poisson": np.exp, "identity": lambda z: z}
every_link = pytest.mark.parametrize("name", EXACT)
scores = st.floats(-30, 30)


@every_link
@given(z=scores)
def test_means_are_scipys(name, z):
    code = MeanFunction(name).code
    np.testing.assert_allclose(mean(code, z), EXACT[name](z), rtol=1e-12)
    np.testing.assert_array_equal(means(code, np.array([[z, -z]])), [[mean(code, z), mean(code, -z)]])


@every_link
@given(z=st.floats(-5, 5))
def test_slope_is_the_derivative_of_mean_and_mean_that_of_cumulant(name, z):
    code, h = MeanFunction(name).code, 1e-5
    rise = (mean(code, z + h) - mean(code, z - h)) / (2 * h)
    np.testing.assert_allclose(slope(code, z), rise, rtol=1e-6, atol=1e-9)
    rise = (cumulant(code, z + h) - cumulant(code, z - h)) / (2 * h)
    np.testing.assert_allclose(mean(code, z), rise, rtol=1e-6, atol=1e-8)


@every_link
@pytest.mark.parametrize("z", [-6.0, -0.3, 2.0, 5.0])
def test_cumulant_is_the_integral_of_mean(name, z):
    code = MeanFunction(name).code
    area = quad(EXACT[name], 0.0, z, epsabs=1e-12)[0]
    np.testing.assert_allclose(cumulant(code, z) - cumulant(code, 0.0), area, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["logistic", "probit"])
@pytest.mark.parametrize("z", [-800.0, 800.0])
def test_far_scores_neither_overflow_nor_lose_their_sign(name, z):
    code = MeanFunction(name).code
    assert mean(code, z) == (z > 0)
    assert slope(code, z) == 0.0
    assert cumulant(code, z) == max(z, 0.0)


@every_link
@given(reach=st.floats(0.01, 4))
def test_the_constants_bound_the_slope_and_are_attained_up_to_the_grid(name, reach):
    link = MeanFunction(name, reach)
    slopes = np.array([slope(link.code, z) for z in np.linspace(-reach, reach, 401)])
    assert slopes.max() <= link.steepest * (1 + 1e-12)
    assert slopes.min() >= link.flattest * (1 - 1e-12)
    np.testing.assert_allclose([slopes.max(), slopes.min()], [link.steepest, link.flattest], rtol=1e-9)


def test_the_publications_constants():
    link = MeanFunction("logistic")
    assert link.steepest == 0.25
    np.testing.assert_allclose(link.flattest, 0.19661193324148185, rtol=1e-14)


def test_side_by_side_or_alone_is_the_same_number():
    """Means of many are found several registers at a time, those left over one by one: to the same bits."""
    rng = np.random.default_rng(0)
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e300, -1e300]
    edges = [limit + step for limit in (-709, -708, 708, 709) for step in (-1e-9, 0.0, 1e-9)]
    z = np.concatenate([3 * rng.standard_normal(1001), rng.uniform(-800, 800, 500), ends, edges])
    for size in (1, 3, 4, 7, 8, 9, 16, len(z)):
        some = rng.permutation(z)[:size]
        alone = np.array([mean(0, one) for one in some])
        np.testing.assert_array_equal(means(0, some), alone)
