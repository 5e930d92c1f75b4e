"""With the identity link the family is the linear one; at the limits of the threshold it is a simpler member."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS, CentralLinUCB, IndependentLinUCB
from fedbandits.linalg.links import MeanFunction
from fedbandits.testing.recording import recorded

N, D = 5, 4
RIDGE, WIDTH = 1e-6, 0.3
"""A small ridge makes the certificate, a gradient of norm sqrt(2 ridge/m^3), tight enough for equal choices."""


def linear(schedule="all"):
    return fb.environments.Linear(clients=N, dim=D, arms=6, schedule=schedule)


def assert_certified(found, models):
    """Each row of `found` (n, d) solves the normal equations V theta = b as well as its certificate says."""
    gram, moment = models.base.gram + models.fresh.gram, models.base.moment + models.fresh.moment
    count = models.base.count + models.fresh.count
    off = np.einsum("nij,nj->ni", gram, found) + RIDGE * found - moment
    assert (np.linalg.norm(off, axis=1) <= np.sqrt(2 * RIDGE / np.maximum(count, 1)) + 1e-9).all()


def clicks(schedule="all", **more):
    return fb.environments.Logistic(clients=N, dim=D, arms=6, schedule=schedule, **more)


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
def test_one_ucb_glm_is_central_linucb(schedule):
    glm = ALGORITHMS["one-ucb-glm"](ridge=RIDGE, width=WIDTH)
    pair = (recorded(one, linear(schedule), 80, seed=1) for one in (glm, CentralLinUCB(ridge=RIDGE, width=WIDTH)))
    for event, central in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, central.picks)
        assert_certified(event.side.agents.theta, central.side.agents.models)
        inverse = event.side.agents.inverse
        np.testing.assert_allclose(inverse, central.side.agents.models.inverse, atol=1e-7 * inverse.max())


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
def test_n_ucb_glm_is_independent_linucb(schedule):
    glm = ALGORITHMS["n-ucb-glm"](ridge=RIDGE, width=WIDTH)
    pair = (recorded(one, linear(schedule), 80, seed=1) for one in (glm, IndependentLinUCB(ridge=RIDGE, width=WIDTH)))
    for event, alone in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, alone.picks)
        assert_certified(event.side.agents.theta, alone.side.agents.models)


@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton", "fedglb-ucb-1", "fedglb-ucb-2"])
def test_a_global_update_is_the_ridge_solution(name):
    """Within the distance sqrt(2 epsilon m / lambda) = sqrt(2 / (lambda m)) that the certificate 1/m^2 leaves at most;
    in fact, within what a gradient of norm sqrt(2 lambda / m^3) leaves.
    """
    gram, moment, updates = np.zeros((D, D)), np.zeros(D), 0
    for event in recorded(ALGORITHMS[name](ridge=0.5, scale=0.1), linear(), 60):
        x = event.arms[np.arange(N), event.picks]
        gram, moment = gram + x.T @ x, moment + x.T @ event.rewards
        if not event.crossed:
            continue
        server = event.side.server
        m = server.count[0]
        ridge = np.linalg.solve(gram + 0.5 * np.eye(D), moment)
        gap = server.theta - ridge
        excess = gap @ (gram + 0.5 * np.eye(D)) @ gap / (2 * m)
        assert excess <= 1 / m**2
        assert np.linalg.norm((gram + 0.5 * np.eye(D)) @ gap) / m <= np.sqrt(2 * 0.5 / m**3) * (1 + 1e-9)
        updates += 1
    assert updates >= 5


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton"])
def test_an_infinite_threshold_is_n_ons_glm(name, schedule):
    """To the last bit, but for the width: FedGLB-UCB starts from (lambda/c) I, N-ONS-GLM from lambda I."""
    c = MeanFunction("logistic").flattest
    fed = ALGORITHMS[name](threshold=math.inf, width=WIDTH, ridge=2.0)
    alone = ALGORITHMS["n-ons-glm"](width=WIDTH, ridge=2.0 / c)
    pair = (recorded(one, clicks(schedule), 80, seed=3) for one in (fed, alone))
    for event, other in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, other.picks)
        mine, theirs = event.side.agents.state(), other.side.agents.state()
        for key in mine.keys() - {"regret", "beta"}:
            np.testing.assert_array_equal(mine[key], theirs[key], err_msg=key)
        paid = [side.regret - first for side, first in ((event.side.agents, 1.0), (other.side.agents, 4.0))]
        np.testing.assert_allclose(*paid, atol=1e-12)


@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton", "n-ons-glm", "fedglb-ucb-3"])
def test_iterates_stay_in_the_ball(name):
    """With clicks and steps of 1/c they would not by themselves."""
    projected = 0
    parameters = {"updates": 5} if name == "fedglb-ucb-3" else {}
    for event in recorded(ALGORITHMS[name](ridge=0.5, **parameters), clicks(), 80):
        if event.crossed:
            continue
        norms = np.linalg.norm(event.side.agents.theta[event.who], axis=1)
        assert (norms <= 1 + 1e-12).all()
        projected += (norms > 1 - 1e-12).sum()
    assert projected > 0


@pytest.mark.parametrize("link", ["probit", "poisson", "identity"])
@pytest.mark.parametrize(
    "name", ["fedglb-ucb", "fedglb-newton", "fedglb-ucb-3", "one-ucb-glm", "n-ucb-glm", "n-ons-glm"]
)
def test_other_links_learn_too(name, link):
    """After 150 steps the regret of a step is well below what it was at first, and every update was certified."""
    env = {
        "probit": fb.environments.Probit,
        "poisson": fb.environments.PoissonCounts,
        "identity": fb.environments.Linear,
    }[link](clients=N, dim=D, arms=6)
    run = fb.Simulation(ALGORITHMS[name](width=0.3), env, 150)
    run.run()
    assert run.regret[-50:].mean() < 0.6 * run.regret[:10].mean()
    assert not int(getattr(run.server, "uncertified", 0))
