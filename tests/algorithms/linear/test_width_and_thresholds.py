"""Widths and thresholds, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.algorithms import AsyncLinUCB, AsyncLinUCBAM, DisLinUCB, FedLinUCBAsync, IndependentLinUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.problem import Problem
from fedbandits.models.width import widths


def width(rule, *, logdet=0.0, count=0.0, noise=0.1, bound=1.0, ridge=1.0, delta=0.1, dim=25):
    return widths(
        rule,
        noise=noise,
        bound=bound,
        ridge=ridge,
        delta=delta,
        dim=dim,
        logdet=np.array([logdet]),
        count=np.array([count]),
    )[0]


def test_loose_width_in_numbers():
    """sigma = lambda = delta = 0.1, d = 25, m = 100: 0.1 sqrt(25 log 41 + 2 log 10) + sqrt(0.1)."""
    assert width("loose", ridge=0.1, count=100) == pytest.approx(1.3033674312, abs=1e-10)


def test_theory_width_in_numbers():
    """V = diag(2, 8) with lambda = 2: log det V - d log lambda = log 4; S = 3, sigma = 0.5, delta = 1/e."""
    value = width("theory", logdet=math.log(16), noise=0.5, bound=3, ridge=2, delta=math.exp(-1), dim=2)
    assert value == pytest.approx(0.5 * math.sqrt(2 + math.log(4)) + 3 * math.sqrt(2), rel=1e-14)


def test_constant_width():
    assert width(0.7, logdet=123.0, count=5) == 0.7


@given(
    st.integers(1, 6).flatmap(
        lambda d: st.lists(st.lists(st.floats(-1, 1), min_size=d, max_size=d), min_size=1, max_size=12)
    ),
    st.floats(0.01, 10),
)
def test_the_loose_width_is_never_below_the_theory_width(rows, ridge):
    """The trace bound on the determinant: det(V)/lambda^d <= (1 + m/(d lambda))^d for arms of norm at most 1."""
    x = np.array(rows)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    d = x.shape[1]
    logdet = np.linalg.slogdet(x.T @ x + ridge * np.eye(d))[1]
    tight = width("theory", logdet=logdet, ridge=ridge, dim=d)
    assert width("loose", count=len(x), ridge=ridge, dim=d) >= tight - 1e-9


class TestDisLinUCBThreshold:
    problem = Problem(agents=30, dim=25, arms=25, horizon=3000)

    def test_theory(self):
        """3000 log(90000) / (25 * 30) = 45.63."""
        assert DisLinUCB().trigger(self.problem) == pytest.approx(45.63, abs=0.005)

    def test_released(self):
        """T/(nd) = 4; log 90000 = 2 log 3 + 4 log 10 = 11.407565 and log 3000 = log 3 + 3 log 10 = 8.006368."""
        assert DisLinUCB(threshold="released").trigger(self.problem) == pytest.approx(4 / 11.407565, abs=1e-7)
        assert DisLinUCB(threshold="released-log-t").trigger(self.problem) == pytest.approx(4 / 8.006368, abs=1e-7)

    def test_a_number_is_itself(self):
        assert DisLinUCB(threshold=2).trigger(self.problem) == 2.0


def test_fedlinucb_growth():
    problem = Problem(agents=10, dim=2, arms=2, horizon=10)
    assert FedLinUCBAsync().factor(problem) == pytest.approx(0.01)
    assert FedLinUCBAsync(growth=0.5).factor(problem) == 0.5


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (IndependentLinUCB, {"ridge": 0}),
        (IndependentLinUCB, {"ridge": -1}),
        (IndependentLinUCB, {"ridge": math.nan}),
        (IndependentLinUCB, {"ridge": math.inf}),
        (IndependentLinUCB, {"delta": 0}),
        (IndependentLinUCB, {"delta": 1}),
        (IndependentLinUCB, {"delta": math.nan}),
        (IndependentLinUCB, {"width": -0.1}),
        (IndependentLinUCB, {"width": math.inf}),
        (IndependentLinUCB, {"width": "wide"}),
        (DisLinUCB, {"threshold": -1}),
        (DisLinUCB, {"threshold": math.nan}),
        (DisLinUCB, {"threshold": "practice"}),
        (AsyncLinUCB, {"gamma_up": 0.99}),
        (AsyncLinUCB, {"gamma_down": math.nan}),
        (AsyncLinUCBAM, {"shared": 0}),
        (AsyncLinUCBAM, {"alternations": 0}),
        (FedLinUCBAsync, {"growth": -0.1}),
        (FedLinUCBAsync, {"growth": math.nan}),
    ],
)
def test_parameters_out_of_range_are_refused(kind, parameters):
    with pytest.raises(ConfigError, match=f"{kind.about.name}: {next(iter(parameters))}"):
        kind(**parameters)
