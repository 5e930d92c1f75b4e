"""Laws beyond the linear ones: stable noise, two-point rewards, contamination."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fedbandits.environments.laws import Bernoulli, Contaminated, Gaussian, Poisson, Stable, TwoPoint

DRAWS = 20_000


def draw(law, draws=DRAWS, seed=1):
    return law.shocks(np.random.default_rng(seed), (draws,))


# --- stable noise


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9, 2.0])
def test_stable_noise_has_its_characteristic_function(alpha):
    """E cos(tZ) = exp(-|t|^alpha), E sin(tZ) = 0."""
    noise = draw(Stable(alpha, 1.0), 100_000)
    for t in (0.2, 0.7, 1.0, 2.0):
        for found, expected in ((np.cos(t * noise), math.exp(-(t**alpha))), (np.sin(t * noise), 0.0)):
            assert abs(found.mean() - expected) < 4 * found.std() / math.sqrt(len(noise))


@pytest.mark.parametrize("alpha", [1.2, 1.9])
def test_stable_noise_agrees_with_scipy(alpha):
    scale = 0.7
    noise = draw(Stable(alpha, scale), 4000)
    at = np.array([-6.0, -2.0, -0.8, -0.2, 0.3, 1.0, 3.0, 8.0])
    expected = stats.levy_stable.cdf(at / scale, alpha, 0.0)
    found = (noise[:, None] < at).mean(axis=0)
    assert (np.abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / len(noise))).all()


def test_stable_noise_of_index_two_is_gaussian_with_variance_two():
    assert stats.kstest(draw(Stable(2.0, 0.5)) / (0.5 * math.sqrt(2)), "norm").pvalue > 1e-3


def test_stable_shocks_fill_any_shape_and_are_finite_at_the_ends():
    law = Stable(1.5, 1.0)
    flat, shaped = draw(law, 12), law.shocks(np.random.default_rng(1), (3, 4))
    np.testing.assert_array_equal(flat, shaped.reshape(-1))

    class Ends:
        """The extreme numbers a generator can give."""

        def random(self, shape):
            return np.array([0.0, 0.0, 1 - 2**-53, 0.5])

        def standard_exponential(self, shape):
            return np.array([0.0, 40.0, 40.0, 1.0])

    for alpha in (1.01, 1.5, 2.0):
        shocks = Stable(alpha, 1.0).shocks(Ends(), (4,))
        assert np.isfinite(shocks).all()
        assert shocks[1] < shocks[3] == 0 < shocks[2]


@pytest.mark.parametrize(("order", "expected"), [(1.1, 1.259), (1.5, 1.735), (1.8, 3.385)])
def test_stable_moments_by_known_numbers(order, expected):
    assert Stable(1.9, 1.0).central_moment(order) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("alpha", "order"), [(1.5, 1.2), (1.9, 1.5), (1.9, 1.8)])
def test_stable_moments_by_integration(alpha, order):
    """p int z^(p-1) P(|Z| > z) dz by scipy's distribution up to 50, and the tail's asymptotic series from there on."""
    survival = stats.levy_stable(alpha, 0.0).sf
    inner = integrate.quad(lambda z: order * z ** (order - 1) * 2 * survival(z), 0, 50, limit=200, epsabs=1e-7)[0]

    def term(k):
        # P(Z > z) ~ sum_k (-1)^(k+1) Gamma(alpha k) sin(pi alpha k / 2) / (pi k!) z^(-alpha k)
        weight = (-1) ** (k + 1) * math.gamma(alpha * k) * math.sin(math.pi * alpha * k / 2)
        return 2 * weight / (math.pi * math.factorial(k)) * order * 50 ** (order - alpha * k) / (alpha * k - order)

    assert Stable(alpha, 1.0).central_moment(order) == pytest.approx(inner + term(1) + term(2), rel=1e-4)


@pytest.mark.parametrize("alpha", [1.3, 1.9])
def test_stable_moments_by_simulation(alpha):
    """A low order, whose own variance is finite."""
    order = 0.45 * alpha
    powers = np.abs(draw(Stable(alpha, 2.0), 200_000)) ** order
    expected = Stable(alpha, 2.0).central_moment(order)
    assert abs(powers.mean() - expected) < 5 * powers.std() / math.sqrt(len(powers))


def test_stable_moments_of_a_gaussian_and_beyond_the_index():
    gaussian = Stable(2.0, 3.0)
    assert gaussian.central_moment(2.0) == pytest.approx(2 * 9)
    assert gaussian.central_moment(4.0) == pytest.approx(3 * (2 * 9) ** 2)
    assert gaussian.central_moment(1.0) == pytest.approx(3 * math.sqrt(2) * math.sqrt(2 / math.pi))
    assert Stable(1.5, 1.0).central_moment(1.5) == math.inf
    assert Stable(1.5, 1.0).central_moment(1.49) < math.inf
    near = [Stable(alpha, 1.0).central_moment(1.3) for alpha in (2.0, 1.999999)]
    assert near[0] == pytest.approx(near[1], rel=1e-4)


# --- two points


@given(mean=st.floats(0, 1), value=st.floats(1, 1e6))
def test_two_points_have_the_stated_moments(mean, value):
    """By direct summation over the two outcomes."""
    chance = mean / value
    for order in (1.0, 1.5, 2.0):
        direct = chance * abs(value - mean) ** order + (1 - chance) * abs(0 - mean) ** order
        assert TwoPoint(value).central_moment(mean, order) == pytest.approx(direct)
    assert TwoPoint(value).central_moment(mean, 2.0) == pytest.approx(mean * (value - mean), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.3, 4.0])
def test_two_point_rewards(mean):
    law = TwoPoint(4.0)
    earned = law.rewards(np.full(DRAWS, mean), draw(law))
    assert set(np.unique(earned)) <= {0.0, 4.0}
    assert stats.binomtest(int((earned > 0).sum()), DRAWS, mean / 4).pvalue > 1e-4


# --- contamination


CLEAN = [Bernoulli("identity"), Gaussian(0.5), Stable(1.5, 1.0), Poisson(), TwoPoint(3.0)]


@pytest.mark.parametrize("law", CLEAN, ids=repr)
@pytest.mark.parametrize("outliers", ["constant", "gaussian", "cauchy"])
def test_rewards_that_are_not_contaminated_are_clean(law, outliers):
    """What a seed pays at one rate it pays at another, except for more or fewer outliers."""
    means = law.means(np.full(DRAWS, 0.4))
    clean = law.rewards(means, draw(law))
    dirty = [Contaminated(law, rate, outliers, 7.5) for rate in (0.0, 0.1, 0.3)]
    for one in dirty:
        np.testing.assert_array_equal(one.means(np.full(DRAWS, 0.4)), means)
    none, some, more = (one.rewards(means, draw(one)) for one in dirty)
    np.testing.assert_array_equal(none, clean)
    hit, hit_more = some != clean, more != clean
    assert (hit <= hit_more).all()
    np.testing.assert_array_equal(some[hit], more[hit])
    for struck, rate in ((hit, 0.1), (hit_more, 0.3)):
        assert stats.binomtest(int(struck.sum()), DRAWS, rate).pvalue > 1e-4


@pytest.mark.parametrize(
    ("outliers", "law"),
    [("gaussian", stats.norm(scale=7.5)), ("cauchy", stats.cauchy(scale=7.5))],
    ids=["gaussian", "cauchy"],
)
def test_outliers_follow_their_law_whatever_the_reward(outliers, law):
    base = Bernoulli("identity")
    dirty = Contaminated(base, 0.3, outliers, 7.5)
    means = np.full(DRAWS, 0.5)
    seen = dirty.rewards(means, draw(dirty))
    out = ~np.isin(seen, (0.0, 1.0))
    assert stats.kstest(seen[out], law.cdf).pvalue > 1e-3
    would = base.rewards(means, draw(base))
    table = [[(would[struck] == y).sum() for y in (0, 1)] for struck in (out, ~out)]
    assert stats.fisher_exact(table).pvalue > 1e-3


def test_a_constant_outlier_is_that_number():
    dirty = Contaminated(Bernoulli("identity"), 0.2, "constant", -3.0)
    assert set(np.unique(dirty.rewards(np.full(DRAWS, 0.5), draw(dirty)))) == {-3.0, 0.0, 1.0}


def test_the_identity_link_hands_scores_on():
    """Also where they are a view of one row, which must not be copied for everybody."""
    scores = np.broadcast_to(np.array([0.1, 0.9]), (5, 2))
    assert Bernoulli("identity").means(scores) is scores
