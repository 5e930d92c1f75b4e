"""Accounting: equal to dp-accounting, above the truth, below the publication; budgets that hold."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import zeta

from fedbandits.contract.errors import ConfigError
from fedbandits.privacy import (
    PrivacyParameters,
    broadcast,
    calibrate,
    composed,
    gaussian_epsilon,
    published_epsilon,
    published_schedule,
    regular,
    spending,
    tight,
)
from fedbandits.privacy.accountant import _ORDERS, event, in_closed_form, total


def optimistic(losses, delta):
    """Epsilon by `dp_accounting`, from loss distributions rounded down: at most the truth."""
    composition = pld.identity(1e-3, pessimistic_estimate=False)
    for loss in losses:
        one = pld.from_laplace_mechanism(1 / loss, value_discretization_interval=1e-3, pessimistic_estimate=False)
        composition = composition.compose(one)
    return composition.get_epsilon_for_delta(delta)


class TestComposition:
    @given(st.lists(st.floats(1e-3, 3), max_size=6), st.sampled_from([1e-9, 1e-5, 1e-2, 0.1, 0.5]))
    @settings(max_examples=25)
    def test_the_closed_form_is_what_dp_accounting_says(self, losses, delta):
        accountant = RdpAccountant(_ORDERS)
        accountant.compose(event(np.array(losses)))
        expected = min(accountant.get_epsilon(delta), sum(losses))
        assert in_closed_form(np.array(losses), delta) == pytest.approx(expected, rel=1e-9, abs=1e-12)

    @given(st.lists(st.floats(1e-3, 3), min_size=1, max_size=5), st.sampled_from([1e-9, 1e-5, 1e-2, 0.1, 0.5]))
    @settings(max_examples=10)
    def test_every_prefix_is_an_upper_bound_and_no_worse_than_the_closed_form(self, losses, delta):
        spent = composed(np.array(losses), delta)
        for j in range(1, len(losses) + 1):
            assert spent[j] <= in_closed_form(np.array(losses[:j]), delta)
        assert optimistic(losses, delta) <= spent[-1] * (1 + 1e-9) + 1e-9
        assert total(np.array(losses), delta) == spent[-1]

    def test_our_orders_are_no_worse_than_the_usual_ones(self):
        for parameter, delta in [(1.0, 1e-5), (0.1, 1e-5), (0.01, 1e-3), (1.0, 0.1)]:
            losses = broadcast(parameter, 1.1, 200).losses
            usual = RdpAccountant()
            usual.compose(event(losses))
            assert in_closed_form(losses, delta) <= 1.003 * usual.get_epsilon(delta)

    def test_without_delta_losses_add_up(self):
        np.testing.assert_allclose(composed(np.array([0.5, 0.25, 1.0]), 0.0), [0, 0.5, 0.75, 1.75])

    @pytest.mark.parametrize("loss", [0.1, 1.0, 3.0])
    @pytest.mark.parametrize("delta", [1e-3, 0.05])
    def test_one_release_against_the_exact_curve(self, loss, delta):
        """delta(epsilon) = 1 - exp((epsilon - loss) / 2) for Laplace noise, 0 <= epsilon <= loss."""
        exact = max(0.0, loss + 2 * np.log1p(-delta))
        assert tight(np.array([loss]), delta) == pytest.approx(exact, abs=2e-4)
        assert exact <= composed(np.array([loss]), delta)[-1] <= min(loss, 1.004 * exact + 1e-3 * delta)

    @pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
    @pytest.mark.parametrize(("parameter", "pulls"), [(1.0, 8), (0.1, 200)])
    def test_above_the_truth_and_within_half_a_percent_of_it(self, delta, parameter, pulls):
        losses = broadcast(parameter, 1.1, pulls).losses
        bound = composed(losses, delta)[-1]
        assert optimistic(losses, delta) <= bound <= 1.005 * tight(losses, delta)

    def test_at_a_large_delta_the_closed_form_is_far_above(self):
        losses = broadcast(0.1, 1.1, 1000).losses
        assert total(losses, 0.1) < 0.68 * in_closed_form(losses, 0.1)

    def test_releases_that_are_alike_count_as_equals_to_the_safe_side(self):
        """Thousands of small losses, of which the transforms see a few hundred blocks."""
        losses = np.sort(np.random.default_rng(0).uniform(0.01, 0.0102, 3000))[::-1]
        for delta in (1e-5, 0.1):
            # nearly Gaussian: by the central limit theorem, with a bound on what that leaves out
            near = gaussian_epsilon(float(np.sqrt((losses**2).sum())), delta)
            assert total(losses, delta) == pytest.approx(near, rel=0.01)

    def test_what_cannot_be_transformed_is_bounded_in_closed_form(self):
        for losses, delta in [(np.full(50, 30.0), 1e-5), (np.array([0.5, 0.1]), 1e-15)]:
            assert total(losses, delta) == in_closed_form(losses, delta)

    def test_nothing_is_lost_where_nothing_is_told(self):
        np.testing.assert_array_equal(composed(np.zeros(3), 1e-5), np.zeros(4))
        np.testing.assert_array_equal(composed(np.zeros(0), 1e-5), np.zeros(1))

    @given(st.lists(st.floats(0, 3), min_size=1, max_size=20), st.sampled_from([0.0, 1e-5, 0.1]))
    def test_spending_never_falls(self, losses, delta):
        spent = composed(np.array(losses), delta)
        assert spent[0] == 0
        assert (np.diff(spent) >= -1e-12).all()

    @pytest.mark.parametrize("delta", [-0.1, 1.0, 2.0])
    def test_a_delta_outside_is_refused(self, delta):
        with pytest.raises(ValueError, match="delta"):
            composed(np.ones(2), delta)

    @pytest.mark.parametrize("loss", [-1.0, np.inf, np.nan])
    def test_losses_that_are_none_are_refused(self, loss):
        with pytest.raises(ValueError, match="losses"):
            composed(np.array([1.0, loss]), 0.1)

    def test_the_event_says_what_was_released(self):
        told = event(np.array([0.5, 0.25]))
        assert [part.noise_multiplier for part in told.events] == [2.0, 4.0]
        accountant = PLDAccountant()
        accountant.compose(told)
        assert accountant.get_epsilon(1e-9) == pytest.approx(0.75, abs=1e-3)


class TestLemma:
    @pytest.mark.parametrize(
        ("parameter", "rate", "expected"), [(1.0, 1.1, 28.2), (0.1, 1.1, 4.32), (1.0, 1.4, 9.99), (0.1, 1.4, 1.82)]
    )
    def test_values(self, parameter, rate, expected):
        assert published_epsilon(parameter, rate, 0.1) == pytest.approx(expected, rel=3e-3)

    def test_the_first_term_is_basic_composition(self):
        assert published_epsilon(0.1, 1.1, 0.0, pulls=100) == pytest.approx(0.1 * 100**0.45 / 0.45)
        assert published_epsilon(0.1, 1.1, 1e-5, pulls=10) == pytest.approx(0.1 * 10**0.45 / 0.45)

    @given(st.floats(0.01, 50), st.floats(1.05, 1.45), st.floats(1e-9, 0.5))
    def test_the_inverse(self, epsilon, rate, delta):
        parameter = published_schedule(epsilon, rate, delta)
        assert published_epsilon(parameter, rate, delta) == pytest.approx(epsilon, rel=1e-9)

    def test_a_value_of_the_inverse(self):
        assert published_schedule(1.0, 1.4, 0.1) == pytest.approx(0.0397, abs=5e-5)
        assert zeta(1.4) == pytest.approx(3.106, abs=1e-3)

    @given(st.floats(0.01, 1.0), st.floats(1.05, 1.45), st.sampled_from([0.0, 1e-9, 1e-5, 1e-2, 0.1]))
    def test_it_is_never_below_our_accounting(self, parameter, rate, delta):
        """So never below the truth, which our accounting is not below."""
        for rule in (broadcast, regular):
            losses = rule(parameter, rate, 300).losses
            assert composed(losses, delta)[-1] <= published_epsilon(parameter, rate, delta, pulls=300) * (1 + 1e-9)

    def test_how_loose_it_is(self):
        """The figures in the module's docstring."""
        for delta, rate, parameter, lemma, renyi, ours in [
            (0.1, 1.1, 1.0, 28.2, 5.6, 4.5),
            (0.1, 1.1, 0.1, 4.3, 0.72, 0.46),
            (0.1, 1.4, 1.0, 10.0, 3.2, 2.5),
            (0.1, 1.4, 0.1, 1.8, 0.31, 0.17),
            (1e-5, 1.1, 1.0, 36.8, 11.4, 10.7),
            (1e-5, 1.1, 0.1, 5.0, 2.4, 2.2),
            (1e-5, 1.1, 0.01, 0.50, 0.46, 0.45),
            (1e-5, 1.4, 1.0, 14.7, 6.8, 6.5),
            (1e-5, 1.4, 0.1, 2.6, 1.3, 1.2),
        ]:
            losses = broadcast(parameter, rate, 1000).losses
            assert published_epsilon(parameter, rate, delta, pulls=1000) == pytest.approx(lemma, rel=0.02)
            assert in_closed_form(losses, delta) == pytest.approx(renyi, rel=0.03)
            assert total(losses, delta) == pytest.approx(ours, rel=0.03)


class TestBudget:
    @given(
        st.floats(0.3, 20),
        st.sampled_from([0.0, 1e-5, 1e-2]),
        st.floats(1.05, 1.45),
        st.integers(20, 800),
        st.sampled_from([broadcast, regular]),
    )
    @settings(max_examples=15)
    def test_the_largest_parameter_that_fits(self, epsilon, delta, rate, horizon, rule):
        parameter = calibrate(epsilon, delta, rate, horizon, rule)
        assert composed(rule(parameter, rate, horizon).losses, delta)[-1] <= epsilon
        assert len(rule(parameter, rate, horizon).counts) >= 1
        if parameter < 1:
            more = min(1.0, parameter * 1.0002)
            assert composed(rule(more, rate, horizon).losses, delta)[-1] > epsilon

    def test_a_large_delta_buys_releases_that_the_closed_form_does_not(self):
        parameter = calibrate(1.0, 0.1, 1.1, 400)
        losses = broadcast(parameter, 1.1, 400).losses
        assert optimistic(losses[::4], 0.1) < tight(losses, 0.1) <= 1.001
        assert in_closed_form(losses, 0.1) > 1.25

    def test_more_budget_more_releases(self):
        parameters = [calibrate(epsilon, 1e-5, 1.1, 1000) for epsilon in (0.1, 0.5, 1, 2, 5, 50)]
        assert parameters == sorted(parameters)
        assert parameters[-1] == 1.0

    def test_a_budget_too_small_for_one_release_is_refused(self):
        with pytest.raises(ConfigError, match=r"epsilon: 0\.001 allows no release within 40 pulls"):
            calibrate(0.001, 0.0, 1.1, 40)

    def test_one_release_at_the_very_end_fits_if_it_is_affordable(self):
        cost = 40 ** (-1.1 / 2)
        assert broadcast(calibrate(cost * 1.001, 0.0, 1.1, 40), 1.1, 40).counts.tolist() == [40]

    def test_budget_and_schedule_exclude_each_other(self):
        with pytest.raises(ConfigError, match="give one of them"):
            PrivacyParameters(epsilon=1.0, schedule=0.5)

    @pytest.mark.parametrize(
        "bad",
        [
            *({"epsilon": value} for value in (0.0, np.inf)),
            *({"delta": value} for value in (1.0, -1e-9)),
            *({"rate": value} for value in (1.0, 1.5)),
            *({"schedule": value} for value in (0.0, 1.1)),
        ],
        ids=str,
    )
    def test_parameters_out_of_range(self, bad):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            PrivacyParameters(**bad)

    def test_the_default_is_a_total_of_one(self):
        releases = PrivacyParameters().releases(1000, broadcast)
        assert 0.95 < spending(releases, 1e-5)[-1] <= 1.0
        assert PrivacyParameters(schedule=0.2).releases(100, broadcast) is broadcast(0.2, 1.1, 100)
