"""The Gaussian mechanism's budget: exact, the same as dp-accounting's, and refused where nothing can keep it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NoOpDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedbandits.channel import Gaussian
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.privacy import gaussian_delta, gaussian_epsilon, gaussian_event, gaussian_mu

DELTAS = st.sampled_from([1e-12, 1e-5, 1e-2, 0.1, 0.5])


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_delta_is_the_integral_it_stands_for(mu, epsilon):
    """sup over events of P(S) - e^epsilon Q(S): the mass of N(mu, 1) over that of N(0, 1), where it is more."""
    threshold = epsilon / mu + mu / 2
    inside, _ = quad(
        lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), threshold, threshold + 30 + mu, epsabs=1e-14
    )
    assert gaussian_delta(mu, epsilon) == pytest.approx(inside, rel=1e-6, abs=1e-13)


@given(st.floats(1e-2, 30), st.floats(0, 20))
def test_delta_is_that_of_dp_accounting(mu, epsilon):
    exact = GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    assert gaussian_delta(mu, epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-13)


@given(st.floats(0.01, 50), DELTAS)
def test_the_budget_is_used_up_and_never_exceeded(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * 1.0001, epsilon) > delta
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-3), (1.0, 0.1)])
def test_accountants_say_the_same_of_the_event(epsilon, delta):
    """PLD, which rounds up, to its discretisation; RDP is a bound, and a looser one."""
    event = gaussian_event(gaussian_mu(epsilon, delta))
    tight, loose = PLDAccountant(), RdpAccountant()
    for accountant in (tight, loose):
        accountant.compose(event)
    assert epsilon - 1e-6 <= tight.get_epsilon(delta) <= epsilon + 2e-3
    assert epsilon <= loose.get_epsilon(delta) < 1.4 * epsilon + 0.2


def test_several_mechanisms_are_one():
    """Squares of mu add up: against the composition of two events."""
    accountant = PLDAccountant()
    accountant.compose(gaussian_event(0.3)).compose(gaussian_event(0.4))
    assert gaussian_epsilon(0.5, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), abs=2e-3)


@pytest.mark.parametrize("mechanism", ["toeplitz", "tree", "fresh"])
@pytest.mark.parametrize("unit", ["observation", "agent", "person"])
def test_all_releases_of_the_stage_cost_its_budget(mechanism, unit):
    stage = Gaussian(epsilon=2.0, delta=1e-6, uploads=6, mechanism=mechanism, unit=unit)
    problem = stage.poses(
        Problem(agents=3, dim=4, arms=5, horizon=900).knowing(Norms(1.0, 1.0), Range(0, 1), Noise(0.5))
    )
    costs = [gaussian_epsilon(1 / stage.event(problem, k).noise_multiplier, 1e-6) for k in range(1, 7)]
    assert isinstance(stage.event(problem, 0), NoOpDpEvent)
    assert stage.event(problem) == stage.event(problem, 6)
    assert (np.diff(costs) >= 0).all()
    assert costs[-1] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 1e-300), (1e-12, 1e-12)])
def test_a_budget_that_allows_no_release_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="allows no release"):
        gaussian_mu(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (1.0, 1.0), (0.0, 0.1), (math.inf, 0.1), (math.nan, 0.1)])
def test_what_is_no_budget_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"delta|epsilon"):
        gaussian_mu(epsilon, delta)


def test_no_noise_is_no_privacy_and_no_release_costs_nothing():
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(1e-7, 1e-5) == 0.0  # total variation is within delta
    with pytest.raises(ValueError, match="mu"):
        gaussian_epsilon(-1.0, 1e-5)
