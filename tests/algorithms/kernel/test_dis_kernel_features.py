"""Features in the linear family: near the exact process, the same for everybody, and no raw point crosses."""

from __future__ import annotations

import numpy as np
import pytest
from companies import side_by_side

import fedbandits as fb
from fedbandits.algorithms import IGPUCB, DisKernelFeatures, DisKernelUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine, RKHSMixture
from fedbandits.facts import Noise
from fedbandits.models.features import RandomFourierFeatures
from fedbandits.models.kernels import Matern, SquaredExponential

ONE = np.zeros(1, dtype=np.int64)


@pytest.mark.parametrize("kernel", [SquaredExponential((1.0, 0.5)), Matern((1.0, 1.0), 0.5)], ids=repr)
def test_random_features_are_off_by_what_is_stated(kernel):
    """In root mean square over 300 draws, for every pair of points, within 4 standard errors of that."""
    points = np.random.default_rng(0).normal(size=(8, 2))
    k = kernel.matrix(points, points)
    twice = kernel.matrix(2 * points, 2 * points)
    m, errors = 20, []
    for draw in range(300):
        phi = RandomFourierFeatures(kernel, 2 * m, np.random.default_rng(draw)).of(ONE, points[None])[0]
        np.testing.assert_allclose((phi**2).sum(axis=1), 1.0)
        errors.append(phi @ phi.T - k)
    stated = np.sqrt(np.maximum(1 + twice - 2 * k**2, 0) / (2 * m))
    np.testing.assert_allclose(
        np.sqrt(np.mean(np.square(errors), axis=0)), stated, rtol=4 * np.sqrt(1.5 / 300), atol=1e-7
    )
    assert stated.max() <= 1 / np.sqrt(2 * m)
    with pytest.raises(ValueError, match="must be even"):
        RandomFourierFeatures(kernel, 7, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("setting", "env"),
    [
        ({"features": "quadrature", "error": 1e-8, "kernel": "told"}, RKHSMixture(clients=4, arms=9)),
        ({"features": "quadrature", "error": 1e-8, "lengthscale": 0.8}, Cosine(clients=4, dim=2, arms=9)),
    ],
    ids=["told", "by-norm"],
)
def test_quadrature_chooses_as_the_exact_process_does(setting, env):
    given = {"width": 0.4, "threshold": 2.0, "ridge": 0.5}
    exact = {name: value for name, value in setting.items() if name in ("kernel", "lengthscale")}
    pair = [DisKernelUCB(**given, **exact), DisKernelFeatures(**given, **setting)]
    for _, scores in side_by_side(pair, env, 40, seed=2):
        np.testing.assert_allclose(*scores, atol=1e-5)


def test_more_random_features_come_nearer_to_the_exact_process():
    env = Cosine(clients=3, dim=3, arms=9)
    gaps = []
    for count in (20, 500):
        world = env.world(40, np.random.SeedSequence(1))
        streams = Streams(np.random.SeedSequence(0), 3)
        exact = DisKernelUCB(width=0.4).agents(world.problem, 3, streams)
        features = DisKernelFeatures(width=0.4, count=count).agents(world.problem, 3, streams)
        for step in range(25):
            turn = world.turn(step)
            picks = exact.choose(turn.who, turn.arms)
            rewards = world.pay(step, picks).rewards
            for agents in (exact, features):
                agents.learn(turn.who, turn.arms, picks, rewards)
        turn = world.turn(25)
        gaps.append(np.abs(exact.scores(turn.who, turn.arms) - features.scores(turn.who, turn.arms)).mean())
    assert gaps[0] > 2 * gaps[1]


def test_company_helps_and_a_schedule_can_have_noise():
    env = Cosine(clients=5, dim=3, arms=8)
    together, alone = (
        fb.simulate(DisKernelFeatures(width=0.3, threshold=threshold), env, horizon=150, seed=0)
        for threshold in (1.0, np.inf)
    )
    assert together.regret[-1] < 0.6 * alone.regret[-1]
    private = fb.simulate("dis-kernel-features:every=10,count=10|gaussian:epsilon=2,rewards=1", env, horizon=40, seed=0)
    assert private.syncs[-1] > 0


def test_what_cannot_be_is_refused_with_the_fix():
    env = Cosine(clients=2, dim=3, arms=4)
    with pytest.raises(ConfigError, match="use dislinucb"):
        fb.simulate(DisKernelFeatures(kernel="linear"), env, horizon=5)
    with pytest.raises(ConfigError, match=r"not for matern-3/2; use features=random"):
        fb.simulate(DisKernelFeatures(kernel="matern-3/2", features="quadrature"), env, horizon=5)
    with pytest.raises(ConfigError, match="count"):
        DisKernelFeatures(count=7)
    with pytest.raises(ConfigError, match="both say when"):
        DisKernelFeatures(threshold=1.0, every=3)


def test_igp_bands_are_the_published_ones_and_cover():
    """mu +- (B + R sqrt(2 (log det(I + K/lambda)/2 + 1 + log(1/delta)))) sigma with lambda = 1 + 2/T, at all turns."""
    T, covered = 60, []
    for seed in range(5):
        world = RKHSMixture(clients=4, arms=7).world(T, np.random.SeedSequence(seed))
        problem = world.problem
        known, noise = problem.get(fb.facts.RKHS), problem.get(Noise).sigma
        agents = IGPUCB(kernel="told").agents(problem, 4, Streams(np.random.SeedSequence(0), 4))
        whole = np.ones(4, dtype=bool)
        for step in range(T):
            turn = world.turn(step)
            mean, deviation = agents.models.posterior(turn.who, turn.arms)
            width = known.bound + noise * np.sqrt(2 * (agents.models.logdet / 2 + 1 + np.log(10)))
            scores = agents.scores(turn.who, turn.arms)
            np.testing.assert_allclose(scores, mean + width[:, None] * deviation, rtol=1e-12)
            whole &= (np.abs(mean - world.means_at(step)) <= width[:, None] * deviation).all(axis=1)
            picks = agents.choose(turn.who, turn.arms)
            agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        assert agents.models.ridge == 1 + 2 / T
        covered.append(whole)
    assert np.mean(covered) >= 0.9
