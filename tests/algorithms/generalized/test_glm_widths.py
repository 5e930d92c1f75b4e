"""Widths and thresholds against figures computed by hand from the publication's formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.algorithms import ALGORITHMS
from fedbandits.algorithms.generalized.parameters import GLMParameters
from fedbandits.algorithms.generalized.scheduled import Scheduled
from fedbandits.algorithms.generalized.widths import global_part, local_part, offline, ucb_glm
from fedbandits.contract.facts import Link, Noise, Norms
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem

PROBLEM = Problem(agents=20, dim=10, arms=25, horizon=200, facts=(Noise(0.5), Link("logistic")))
CONSTANTS = GLMParameters().constants(PROBLEM)
M = np.array([400.0])
ONE = np.arange(1)


def close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-8)


def test_the_pieces_of_lemma_2():
    W = offline(CONSTANTS, M)
    close(W, 17.0863781249)
    B2 = CONSTANTS.c / 2 * W**2
    close(B2, 28.6998683240)
    logdet = np.array([10 * np.log(41.0)])
    close(np.log(100) + logdet / 2, 23.1730305195)
    close(global_part(CONSTANTS, M, logdet, np.array([0.8])), 1393.9199703759)
    close(local_part(CONSTANTS, B2), 1384.7182106978)


@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton", "fedglb-ucb-2"])
def test_an_agents_width_before_data_and_after_a_download(name):
    agents = ALGORITHMS[name]().agents(PROBLEM, 1, None)
    close(agents.width(ONE), 3.1894078666)
    theta = np.zeros((1, 10))
    theta[0, 0] = 0.8
    agents.answer(Message("model", ONE, {"gram": 40 * np.eye(10)[None], "theta": theta, "count": M}))
    close(agents.regret, 28.6998683240)
    residual = agents.squares[0] - agents.models.theta[0] @ agents.models.base.moment[0]
    close(residual, 5.1903408857)
    close(agents.width(ONE), 52.7600242866)


def test_scale_multiplies_the_theorys_width_and_a_constant_replaces_it():
    scaled = ALGORITHMS["fedglb-ucb"](scale=0.1).agents(PROBLEM, 1, None)
    close(scaled.width(ONE), 0.31894078666)
    constant = ALGORITHMS["fedglb-ucb"](width=0.3, scale=0.1).agents(PROBLEM, 1, None)
    close(constant.width(ONE), 0.3)


def test_without_observations_only_the_prior_is_left():
    prior = np.sqrt(CONSTANTS.ridge / CONSTANTS.c)
    close(offline(CONSTANTS, np.zeros(1)), prior)
    assert global_part(CONSTANTS, np.zeros(1), np.zeros(1), np.zeros(1)) == 0


def test_learning_rate_of_variant_3():
    """63 observations between updates: 20 agents, 63 steps, 20 updates."""
    problem = replace(PROBLEM, horizon=63)
    algorithm = ALGORITHMS["fedglb-ucb-3"](updates=20)
    close(algorithm.rate(problem), 0.0049933189)
    agents = algorithm.agents(problem, 1, None)
    close(agents.regret, 0.0199732758)
    close(agents.width(ONE), np.sqrt(2.0))


def test_ucb_glm():
    close(ucb_glm(CONSTANTS, 200), 12.2419766726)
    close(ucb_glm(replace(CONSTANTS, c=0.25), 200), 9.6276748012)
    close(ALGORITHMS["n-ucb-glm"](scale=0.5).alpha(PROBLEM), 12.2419766726 / 2)


@pytest.mark.parametrize(("n", "horizon", "threshold"), [(200, 2000, 0.0775), (20, 200, 0.1206), (50, 500, 0.0987)])
@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton"])
def test_the_theorys_threshold(name, n, horizon, threshold):
    problem = replace(PROBLEM, agents=n, horizon=horizon)
    fired = ALGORITHMS[name]().trigger(problem).fired
    growth = np.array([threshold - 1e-4, threshold + 1e-4])
    np.testing.assert_array_equal(fired(np.ones(2), growth), [False, True])
    np.testing.assert_array_equal(fired(np.full(2, 4.0), growth / 4), [False, True])


def test_equality_fires():
    fired = ALGORITHMS["fedglb-ucb"](threshold=0.5).trigger(PROBLEM).fired
    assert fired(np.array([2.0]), np.array([0.25])).all()


@pytest.mark.parametrize(("updates", "turns"), [(1, 200), (10, 20), (63, 4), (200, 1), (5000, 1)])
@pytest.mark.parametrize("name", ["fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3"])
def test_a_schedule_counts_own_turns(name, updates, turns):
    spread = ALGORITHMS[name](updates=updates).spread(PROBLEM)
    counts = np.arange(1, 201)
    assert counts[spread.fired(counts, np.zeros(200, dtype=np.int64))][0] == turns


@given(st.integers(1, 700), st.integers(1, 700))
def test_so_many_updates_as_evenly_as_turns_allow(updates, turns):
    spread = Scheduled(updates=updates).spread(replace(PROBLEM, horizon=turns))
    moments, told = [], np.zeros(1, dtype=np.int64)
    for turn in range(1, turns + 1):
        seen = np.array([turn])
        fired = spread.fired(seen, told)
        assert fired == (spread.urgency(seen, told) >= 1)
        if fired:
            moments.append(turn)
            told = seen
    assert len(moments) == min(updates, turns)
    assert moments[-1] == turns
    assert np.ptp(np.diff(moments, prepend=0)) <= 1


def test_curvature_may_be_given():
    """Arms of norm sqrt(2), as in the publication's code, whose bound is that for arms of norm 1."""
    problem = PROBLEM.knowing(Norms(arms=np.sqrt(2)))
    ours, released = (ALGORITHMS["fedglb-ucb"](curvature=c).constants(problem) for c in (None, 0.1966119332))
    close(ours.c, np.exp(-np.sqrt(2)) / (1 + np.exp(-np.sqrt(2))) ** 2)
    close(released.c, 0.1966119332)
    assert offline(released, M) < offline(ours, M)
