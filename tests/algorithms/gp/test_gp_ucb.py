"""GP-UCB, exact and on features: the same choices as each other, and as LinUCB under the linear kernel; bands that
cover.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms import GPUCB, GPUCBFeatures, IndependentLinUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Camelback, Linear, RKHSMixture
from fedbandits.facts import Noise
from fedbandits.models.features import quadrature_features
from fedbandits.models.kernels import Linear as LinearKernel
from fedbandits.models.process_agents import ProcessAgents
from fedbandits.models.processes import Processes
from fedbandits.models.width import widths
from fedbandits.simulation.loop import Simulation

SMALL = {"clients": 4, "arms": 9}
T = 120


def populations(algorithms, env, seed=3, horizon=T):
    world = env.world(horizon, np.random.SeedSequence(seed))
    n = world.problem.agents
    return world, [one.agents(world.problem, n, Streams(np.random.SeedSequence(0), n)) for one in algorithms]


@pytest.mark.parametrize("env", [RKHSMixture(**SMALL), Camelback(**SMALL)], ids=["mixture", "camelback"])
@pytest.mark.parametrize("width", [0.5, "theory"])
def test_on_features_agents_choose_as_on_the_process_itself(env, width):
    """Same history for both; where they differ, the two arms are as good as each other, to what features are off by."""
    given = {"width": width, "ridge": 0.5}
    world, (exact, features) = populations([GPUCB(**given), GPUCBFeatures(**given, error=1e-8)], env)
    same = 0
    for step in range(T):
        turn = world.turn(step)
        scores = [agents.scores(turn.who, turn.arms) for agents in (exact, features)]
        np.testing.assert_allclose(*scores, atol=3e-5)
        picks = [agents.choose(turn.who, turn.arms) for agents in (exact, features)]
        rows = np.arange(len(turn.who))
        np.testing.assert_allclose(scores[0][rows, picks[0]], scores[0][rows, picks[1]], atol=6e-5)
        same += (picks[0] == picks[1]).sum()
        rewards = world.pay(step, picks[0]).rewards
        for agents in (exact, features):
            agents.learn(turn.who, turn.arms, picks[0], rewards)
    assert same >= 0.99 * 4 * T


def test_with_coarse_features_scores_are_off_by_as_much_as_the_kernel_allows():
    """The kernel matrix is off by E with |E_ij| <= e, so that K + lambda I and all that follows move with e."""
    env = RKHSMixture(**SMALL)
    gaps = []
    for error in (0.1, 1e-3, 1e-5):
        world, (exact, features) = populations([GPUCB(width=0.5), GPUCBFeatures(width=0.5, error=error)], env)
        for step in range(40):
            turn = world.turn(step)
            picks = exact.choose(turn.who, turn.arms)
            rewards = world.pay(step, picks).rewards
            for agents in (exact, features):
                agents.learn(turn.who, turn.arms, picks, rewards)
        turn = world.turn(40)
        gap = exact.scores(turn.who, turn.arms) - features.scores(turn.who, turn.arms)
        gaps.append(np.abs(gap).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


@pytest.mark.parametrize("width", [0.4, "theory"])
def test_under_the_linear_kernel_it_is_linucb(width):
    env = Linear(clients=4, dim=5, arms=8)
    plain = IndependentLinUCB(width=width, ridge=0.7)
    world, (linear,) = populations([plain], env)
    noise = world.problem.get(Noise).sigma

    def rule(logdet, count):
        return widths(width, noise=noise, bound=1.0, ridge=0.7, delta=0.1, dim=0, logdet=logdet, count=count)

    process = ProcessAgents(Processes(4, LinearKernel(5), 0.7, T), rule)
    for step in range(T):
        turn = world.turn(step)
        scores = linear.scores(turn.who, turn.arms)
        np.testing.assert_allclose(process.scores(turn.who, turn.arms), scores, rtol=1e-9, atol=1e-10)
        picks = linear.choose(turn.who, turn.arms)
        if step:  # before anything is known all arms are as good as each other, to the last digit
            np.testing.assert_array_equal(process.choose(turn.who, turn.arms), picks)
        rewards = world.pay(step, picks).rewards
        linear.learn(turn.who, turn.arms, picks, rewards)
        process.learn(turn.who, turn.arms, picks, rewards)


@pytest.mark.parametrize("algorithm", [GPUCB(), GPUCBFeatures(error=1e-3)], ids=lambda one: one.about.name)
def test_bands_cover_the_function_at_all_turns(algorithm):
    """|f(x) - mu(x)| <= width sigma(x) / sqrt(lambda) for every arm that is shown, but for one agent in ten at most."""
    covered = []
    for seed in range(6):
        world, (agents,) = populations([algorithm], RKHSMixture(**SMALL), seed)
        whole = np.ones(4, dtype=bool)
        known = world.problem.get(fb.facts.RKHS)
        off = 0.0 if isinstance(algorithm, GPUCB) else known.bound * quadrature_features(known, 2, 1e-3)[1]
        for step in range(T):
            turn = world.turn(step)
            width = agents.width(turn.who)[:, None]
            if isinstance(agents, ProcessAgents):
                mean, deviation = agents.models.posterior(turn.who, turn.arms)
            else:
                phi = agents.features.of(turn.who, turn.arms)
                mean = np.einsum("wkp,wp->wk", phi, agents.models.theta)
                deviation = np.sqrt(np.einsum("wkp,wpq,wkq->wk", phi, agents.models.inverse, phi))
            truth = world.means_at(step)
            whole &= (np.abs(mean - truth) <= width * deviation + off).all(axis=1)
            picks = agents.choose(turn.who, turn.arms)
            agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        covered.append(whole)
    assert np.mean(covered) >= 0.9


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 80), ridge=st.sampled_from([1e-3, 0.1, 1.0, 30.0]), seed=st.integers(0, 999))
def test_errors_in_rewards_move_estimates_by_their_norm_at_most(count, ridge, seed):
    """||Phi^T e||_{V^-1} <= ||e||: what the width adds for features that are off, t B e / sqrt(lambda) being more."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(count, 7))
    phi /= np.linalg.norm(phi, axis=1)[:, None]
    errors = rng.uniform(-1, 1, count)
    V = phi.T @ phi + ridge * np.eye(7)
    moved = np.sqrt(errors @ phi @ np.linalg.solve(V, phi.T @ errors))
    assert moved <= np.linalg.norm(errors) + 1e-12
    assert moved <= count / np.sqrt(ridge)


def test_the_width_on_features_is_that_of_ridge_regression_and_what_features_are_off_by():
    env = RKHSMixture(clients=2, arms=5)
    algorithm = GPUCBFeatures(error=0.05, ridge=2.0, delta=0.2)
    world, (agents,) = populations([algorithm], env)
    for step in range(10):
        turn = world.turn(step)
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
    off = quadrature_features(world.problem.get(fb.facts.RKHS), 2, 0.05)[1]
    V = agents.models.matrices()
    volume = np.linalg.slogdet(V)[1] - V.shape[1] * np.log(2.0)
    expected = 0.5 * np.sqrt(2 * np.log(5) + volume) + np.sqrt(2.0) + off * np.sqrt(10)
    np.testing.assert_allclose(agents.width(np.arange(2)), expected, rtol=1e-10)


def test_a_horizon_beyond_the_capacity_is_refused_beforehand():
    with pytest.raises(ConfigError, match=r"capacity=100 observations are fewer .* 200 turns; raise capacity"):
        fb.simulate(GPUCB(capacity=100), RKHSMixture(**SMALL), 200)


@pytest.mark.parametrize("name", ["gp-ucb", "gp-ucb-features", "private-gp-ucb", "ldp-gp-ucb", "fed-gp-ucb"])
def test_who_is_not_told_how_smooth_rewards_are_says_where_they_are(name):
    problem = Problem(agents=1, dim=2, arms=3, horizon=10)
    with pytest.raises(ConfigError, match=r"needs to know the fact 'rkhs'.*'rkhs-mixture'"):
        fb.algorithms.ALGORITHMS[name]().agents(problem, 1, Streams(np.random.SeedSequence(0), 1))


def test_a_length_scale_of_ones_own_takes_the_place_of_the_told_one():
    env = RKHSMixture(**SMALL)
    run = Simulation(GPUCB(lengthscale=0.3), env, 10)
    assert run.agents.models.kernel.scales == (0.3, 0.3)
    sizes = [Simulation(GPUCBFeatures(lengthscale=one), env, 10).agents.features.size for one in (2.0, 1.0, 0.5)]
    assert sizes[0] < sizes[1] < sizes[2]


def test_it_learns():
    """Random choices have a regret of about half the gap-ridden range each turn."""
    env = RKHSMixture(clients=10)
    chance = fb.simulate("random", env, 300, seed=1).regret[-1]
    for algorithm in (GPUCB(width=0.5), GPUCBFeatures(width=0.5)):
        assert fb.simulate(algorithm, env, 300, seed=1).regret[-1] < 0.2 * chance
