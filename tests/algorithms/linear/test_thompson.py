"""Linear Thompson sampling: the draws, and choices that follow them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from fedbandits.algorithms import IndependentLinTS
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams

D = 3


def population(n, nu, ridge=1.0, seed=0):
    problem = Problem(agents=n, dim=D, arms=2, horizon=10)
    return IndependentLinTS(nu=nu, ridge=ridge).agents(problem, n, Streams(np.random.SeedSequence(seed), n))


def teach(agents, xs, ys):
    n = len(agents.models)
    for x, y in zip(xs, ys, strict=True):
        arms = np.broadcast_to(x, (n, 1, D)).copy()
        agents.learn(np.arange(n), arms, np.zeros(n, dtype=np.int64), np.full(n, y))


def test_each_choice_is_greedy_under_a_draw_from_the_posterior():
    """theta + nu L z with L L' = V^-1 and z from the agent's own stream."""
    agents = population(6, nu=0.5)
    rng = np.random.default_rng(0)
    teach(agents, rng.standard_normal((5, D)), rng.standard_normal(5))
    stream = Streams(np.random.SeedSequence(0), 6)
    for _ in range(10):
        who = np.flatnonzero(rng.random(6) < 0.7)
        arms = rng.standard_normal((len(who), 8, D))
        z = stream.normal(who, D)
        factor = np.linalg.cholesky(agents.models.inverse[who])
        drawn = agents.models.theta[who] + 0.5 * np.einsum("nij,nj->ni", factor, z)
        scores = np.einsum("nkd,nd->nk", arms, drawn)
        picks = agents.choose(who, arms)
        np.testing.assert_allclose(scores[np.arange(len(who)), picks], scores.max(axis=1), rtol=1e-9)


@pytest.mark.parametrize("nu", [0.3, 1.0])
def test_arms_are_chosen_as_often_as_they_are_drawn_best(nu):
    """P(<theta~, x> > 0) = Phi(<theta, x> / (nu ||x||_{V^-1})) for the arms x and -x, over many agents."""
    n = 20_000
    agents = population(n, nu=nu)
    teach(agents, np.array([[1.0, 0.2, 0.0], [0.3, -1.0, 0.5]]), np.array([0.4, -0.1]))
    x = np.array([0.6, 0.3, -0.2])
    picks = agents.choose(np.arange(n), np.broadcast_to(np.stack([x, -x]), (n, 2, D)).copy())
    theta, inverse = agents.models.theta[0], agents.models.inverse[0]
    expected = norm.cdf(theta @ x / (nu * np.sqrt(x @ inverse @ x)))
    assert 0.55 < expected < 0.95
    assert binomtest(int((picks == 0).sum()), n, expected).pvalue > 1e-3


def test_without_spread_it_is_greedy():
    agents = population(4, nu=0.0)
    rng = np.random.default_rng(2)
    teach(agents, rng.standard_normal((5, D)), rng.standard_normal(5))
    arms = rng.standard_normal((4, 9, D))
    greedy = np.einsum("nkd,nd->nk", arms, agents.models.theta).argmax(axis=1)
    np.testing.assert_array_equal(agents.choose(np.arange(4), arms), greedy)
