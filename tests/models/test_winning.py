"""The chance of each arm to win: closed forms, and frequencies where there are none."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import betainc, betaincinv, ndtr, ndtri

from fedbandits.models.winning import winning_independently, winning_jointly


def gaussian(centre, width):
    return winning_independently(
        lambda x: ndtr((x[:, None] - centre) / width), lambda level: centre + width * ndtri(level[:, None]), len(centre)
    )


def beta(wins, losses):
    return winning_independently(
        lambda x: betainc(wins, losses, x[:, None]), lambda level: betaincinv(wins, losses, level[:, None]), len(wins)
    )


@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0, 4.0, 40.0])
def test_two_gaussians_in_closed_form(gap):
    """P(X > Y) = Phi(gap / sqrt(s^2 + t^2))."""
    found = gaussian(np.array([gap, 0.0]), np.array([1.0, 0.5]))
    assert found == pytest.approx([ndtr(gap / np.sqrt(1.25)), ndtr(-gap / np.sqrt(1.25))], abs=2e-3)
    jointly = winning_jointly(np.array([gap, 0.0]), np.array([[1.0, 0.0], [0.0, 0.5]]))
    assert jointly == pytest.approx(found, abs=5e-3)
    assert (jointly > 0).all()


def test_laws_of_very_different_width():
    """Two that are known well, one that nobody knows: its chance, and how the two share the rest."""
    rng = np.random.default_rng(0)
    wins, losses = np.array([7000.0, 7020.0, 1.0]), np.array([3000.0, 2980.0, 1.0])
    drawn = rng.beta(wins, losses, size=(200_000, 3)).argmax(axis=1)
    assert beta(wins, losses) == pytest.approx(np.bincount(drawn, minlength=3) / 200_000, abs=5e-3)


def test_many_arms_sum_to_one_and_none_is_impossible():
    rng = np.random.default_rng(1)
    found = gaussian(rng.normal(size=100), rng.uniform(0.01, 3.0, size=100))
    assert found.sum() == pytest.approx(1.0)
    assert (found > 0).all()


def test_values_that_depend_on_each_other():
    rng = np.random.default_rng(2)
    means, factors = 0.3 * rng.normal(size=5), rng.normal(size=(5, 3))
    drawn = (means + rng.normal(size=(200_000, 3)) @ factors.T).argmax(axis=1)
    assert winning_jointly(means, factors) == pytest.approx(np.bincount(drawn, minlength=5) / 200_000, abs=1e-2)


def test_the_same_chances_each_time():
    chances = partial(winning_jointly, np.array([0.1, 0.0]), np.eye(2))
    assert chances().tobytes() == chances().tobytes()
