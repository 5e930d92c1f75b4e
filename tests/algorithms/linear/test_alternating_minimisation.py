"""AsyncLinUCB-AM: the blocks, and the joint solution they approach."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AsyncLinUCBAM
from fedbandits.contract.facts import Shared
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models import ridge
from fedbandits.models.two_blocks import alternate

G, D, N = 3, 5, 4


def population(**parameters):
    problem = Problem(agents=N, dim=D, arms=1, horizon=100, facts=(Shared(G),))
    return AsyncLinUCBAM(gamma_up=1e9, **parameters).agents(problem, N, Streams(np.random.SeedSequence(0), N))


def observed(agents, steps, rng):
    """Let everybody observe `steps` times; returns x (steps, N, D) and y (steps, N)."""
    xs, ys = rng.standard_normal((steps, N, D)) / np.sqrt(D), rng.standard_normal((steps, N))
    for x, y in zip(xs, ys, strict=True):
        agents.learn(np.arange(N), np.ascontiguousarray(x[:, None]), np.zeros(N, dtype=np.int64), y)
    return xs, ys


def joint_solution(xs, ys, ridge):
    """argmin sum (y - <theta, x>)^2 + ridge ||theta||^2 over both blocks at once."""
    gram = np.einsum("tni,tnj->nij", xs, xs) + ridge * np.eye(D)
    return np.linalg.solve(gram, np.einsum("tn,tni->ni", ys, xs)[..., None])[..., 0]


def test_many_alternations_reach_the_joint_ridge_solution():
    rng = np.random.default_rng(1)
    agents = population(alternations=300, ridge=0.5)
    xs, ys = observed(agents, 12, rng)
    expected = joint_solution(xs, ys, 0.5)
    np.testing.assert_allclose(agents.common.theta, expected[:, :G], atol=1e-10)
    np.testing.assert_allclose(agents.local.theta, expected[:, G:], atol=1e-10)


def test_few_alternations_approach_it():
    errors = []
    for alternations in (1, 2, 8):
        agents = population(alternations=alternations)
        xs, ys = observed(agents, 12, np.random.default_rng(1))
        found = np.hstack([agents.common.theta, agents.local.theta])
        errors.append(np.abs(found - joint_solution(xs, ys, 1.0)).max())
    assert errors[0] > errors[1] > errors[2]


def test_statistics_of_the_blocks():
    agents = population()
    xs, ys = observed(agents, 6, np.random.default_rng(2))
    shared, own = xs[:, :, :G], xs[:, :, G:]
    np.testing.assert_allclose(agents.common.fresh.gram, np.einsum("tni,tnj->nij", shared, shared))
    np.testing.assert_allclose(agents.local.fresh.gram, np.einsum("tni,tnj->nij", own, own))
    np.testing.assert_allclose(agents.crossed, np.einsum("tni,tnj->nij", shared, own))
    np.testing.assert_allclose(agents.local.fresh.moment, np.einsum("tn,tni->ni", ys, own))


def test_an_upload_holds_what_the_local_block_leaves_unexplained():
    """fresh moment = sum x_g (y - <theta_l, x_l>), with theta_l as it is at the upload."""
    agents = population()
    xs, ys = observed(agents, 6, np.random.default_rng(3))
    local = agents.local.theta.copy()
    reply = agents.answer(fb.Message("collect", np.arange(N)))
    left = ys - np.einsum("tni,ni->tn", xs[:, :, G:], local)
    np.testing.assert_allclose(reply.arrays["moment"], np.einsum("tn,tni->ni", left, xs[:, :, :G]))
    assert reply.arrays["gram"].shape == (N, G, G)
    assert not agents.crossed.any()
    assert not agents.common.fresh.gram.any()


def test_an_upload_does_not_change_the_estimates():
    agents = population()
    observed(agents, 6, np.random.default_rng(4))
    common, local = agents.common.theta.copy(), agents.local.theta.copy()
    agents.answer(fb.Message("collect", np.arange(N)))
    alternate(agents._blocks(), np.arange(N))
    # one more alternation moves them a little further towards the joint solution, and no more than that
    assert np.abs(agents.common.theta - common).max() < 0.1
    assert np.abs(agents.local.theta - local).max() < 0.1


def test_inverses_are_computed_anew_after_many_updates_and_estimates_stay():
    runs = []
    for compiled in (True, False):
        run = fb.Simulation(
            "async-linucb-am:gamma_up=inf", "linear-shared:clients=2,dim=5,shared=3,arms=4", ridge.REFRESH_EVERY + 3
        )
        run.compiled = compiled
        run.run(ridge.REFRESH_EVERY - 1)
        models = run.agents.common
        models.inverse[:] *= 1 + 1e-6  # what is worn
        before = models.theta.copy()
        run.run(1)
        assert np.abs(models.theta - before).max() < 1e-2
        np.testing.assert_allclose(models.inverse @ models.matrices(), np.tile(np.eye(3), (2, 1, 1)), atol=1e-9)
        assert not models.updates.any()
        run.run()
        assert run.played == (ridge.REFRESH_EVERY + 3 if compiled else 0)
        runs.append(run.state())
    one, other = runs
    assert not [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("shared", [None, 5, 6])
def test_the_split_is_checked(shared):
    env = fb.environments.Linear(clients=2, dim=5, arms=3)
    with pytest.raises(fb.ConfigError, match=r"shared: must lie in 1\.\.4"):
        fb.simulate(AsyncLinUCBAM(shared=shared), env, 3)


def test_the_split_may_be_set():
    env = fb.environments.LinearShared(clients=2, dim=5, arms=3, shared=2)
    run = fb.Simulation(AsyncLinUCBAM(shared=4), env, 3)
    assert (run.agents.common.dim, run.agents.local.dim) == (4, 1)
