"""Private and federated processes: what crosses, what is spent, what choices rest on, and the thesis' constants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import LDPGPUCB, FedGPUCB, PrivateGPUCB
from fedbandits.algorithms.gp.printed import PrintedGaussian
from fedbandits.channel.composition import laid_open
from fedbandits.contract.algorithm import posed_by
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Camelback, RKHSMixture
from fedbandits.facts import RKHS, Noise, Range
from fedbandits.models.features import quadrature_features
from fedbandits.models.noisy_sums import Regularised, reading
from fedbandits.privacy import gaussian_epsilon, gaussian_mu
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.recording import recorded

SMALL = RKHSMixture(clients=5, arms=6)
FEW = {"error": 0.3}


def ended(algorithm, env=SMALL, horizon=60, seed=0):
    run = Simulation(algorithm, env, horizon, seed)
    run.run()
    return run


def posed(algorithm, problem):
    """The stage, and the problem as the algorithm and the stage pose it."""
    inner, (stage,) = laid_open(algorithm.composed)
    return stage, stage.poses(posed_by(inner, problem))


# what crosses


def test_without_noise_the_pool_is_everybodys_sums_of_features():
    """Recomputed from the history."""
    algorithm = FedGPUCB(epsilon=None, width=0.5, error=1e-2, every=20)
    seen = {i: [] for i in range(5)}
    for event in recorded(algorithm, SMALL, 40):
        for row, agent in enumerate(event.who):
            seen[int(agent)].append((event.arms[row, event.picks[row]], event.rewards[row]))
        last = event
    pool = last.side.server.inner.pool
    points = np.array([x for one in seen.values() for x, _ in one])
    rewards = np.array([y for one in seen.values() for _, y in one])
    features = last.side.agents.inner.features
    phi = features.of(np.zeros(1, dtype=np.int64), points[None])[0]
    np.testing.assert_allclose(pool.gram[0], phi.T @ phi, atol=1e-10)
    np.testing.assert_allclose(pool.moment[0], phi.T @ rewards, atol=1e-10)
    assert np.trace(pool.gram[0]) == pytest.approx(5 * 40)  # features have norm 1


def test_messages_have_the_size_of_the_features():
    run = ended(FedGPUCB(**FEW, uploads=3))
    p = run.agents.inner.features.size
    trace = run.trace()
    assert trace.syncs[-1] == 3
    assert trace.uplink.scalars[-1] == 3 * 5 * (p * p + p)
    assert trace.downlink.scalars[-1] == 3 * 5 * (p * p + p)


def test_the_local_server_hears_from_callers_alone():
    run = ended(LDPGPUCB(**FEW), replace(SMALL, schedule="random"), 30)
    assert run.trace().uplink.messages[-1] == 30
    assert run.trace().downlink.messages[-1] == 30 * 5


# what is spent


@pytest.mark.parametrize(
    ("algorithm", "releases"),
    [
        (PrivateGPUCB(**FEW, epsilon=0.7, delta=1e-3), 16),
        (PrivateGPUCB(**FEW, epsilon=0.7, delta=1e-3, every=1, mechanism="tree"), 60),
        (FedGPUCB(**FEW, epsilon=0.7, delta=1e-3, uploads=4), 4),
        (LDPGPUCB(**FEW, epsilon=0.7, delta=1e-3), 60),
    ],
    ids=["joint", "joint-tree", "federated", "local"],
)
def test_budgets_are_spent_exactly(algorithm, releases):
    found = ended(algorithm).agents.protection()
    assert found.definition == "transcript"
    assert found.allowed <= 60
    np.testing.assert_array_equal(found.releases, min(releases, found.allowed))
    np.testing.assert_allclose(found.spent, 0.7, rtol=1e-9)
    np.testing.assert_array_equal(found.strictly, found.spent)


def test_what_is_fused_with_clean_data_is_not_private_strictly():
    found = ended(FedGPUCB(**FEW, own="fused")).agents.protection()
    assert found.definition == "fixed histories"
    np.testing.assert_allclose(found.spent, 1.0, rtol=1e-9)
    assert np.isinf(found.strictly).all()


@pytest.mark.parametrize("kind", [PrivateGPUCB, FedGPUCB, LDPGPUCB])
def test_without_a_budget_nothing_is_claimed(kind):
    twin = kind(epsilon="none", **FEW)
    assert twin == kind(epsilon=None, **FEW)
    run = ended(twin)
    assert run.agents.spent() is None
    assert not twin.about.private
    assert kind().about.private


def test_noise_is_as_large_as_the_budget_asks_for():
    """Features have norm 1 and clicks are at most 1, whatever the arms: the sensitivity is sqrt(3/2) in units of the
    noise off the diagonal, times the longest column of the square root of the triangle of ones.
    """
    problem = SMALL.world(60, np.random.SeedSequence(0)).problem
    stage, known = posed(FedGPUCB(**FEW, epsilon=2.0, delta=1e-4, uploads=5), problem)
    f = np.array([math.comb(2 * k, k) / 4**k for k in range(5)])
    expected = math.sqrt(1.5 * (f @ f)) / gaussian_mu(2.0, 1e-4)
    assert stage.noise(known) == pytest.approx(expected)


# what choices rest on


def test_between_releases_rewards_move_no_choice():
    """The same history but for rewards after the last release: choices, and what is released, are the same."""
    choices = []
    for flipped in (False, True):
        run = Simulation(PrivateGPUCB(**FEW, uploads=4, last=0.5, epsilon=5.0), SMALL, 60, 3)
        picked = []
        for step in range(60):
            turn = run.world.turn(step)
            picks = run.agents.choose(turn.who, turn.arms)
            rewards = run.world.pay(step, np.zeros(5, dtype=np.int64)).rewards
            rewards = 1 - rewards if flipped and step >= 30 else rewards
            run.agents.learn(turn.who, turn.arms, picks, rewards)
            picked.append(picks)
        choices.append(picked)
    np.testing.assert_array_equal(choices[0], choices[1])


def test_bands_cover_the_function_with_noise_on():
    """|f(x) - <theta, phi(x)>| within the whole radius and what features are off by, at many turns, for all arms."""
    covered = []
    algorithm = FedGPUCB(error=0.1, epsilon=5.0, uploads=6)
    for seed in range(6):
        run = Simulation(algorithm, SMALL, 120, seed)
        known = run.world.problem.get(RKHS)
        features, off = quadrature_features(known, 2, 0.1)
        whole = np.ones(5, dtype=bool)
        for step in range(0, 120, 8):
            turn = run.world.turn(step)
            theta, V, radius = run.agents.ellipsoids()
            phi = features.of(turn.who, turn.arms)
            mean = np.einsum("wkp,wp->wk", phi, theta)
            norm = np.sqrt(np.einsum("wkp,wpk->wk", phi, np.linalg.solve(V, phi.swapaxes(1, 2))))
            truth = run.world.means_at(step)
            whole &= (np.abs(mean - truth) <= radius[:, None] * norm + known.bound * off).all(axis=1)
            run.run(8)
        covered.append(whole)
    assert np.mean(covered) >= 0.9


# the thesis' constants


def test_the_regulariser_is_the_printed_one():
    """Figures computed beforehand for 50 features, bounded rewards and zeta = 0.1."""
    for epsilon, delta, horizon, expected in (
        (1.0, 0.1, 1024, 2.8e4),
        (10.0, 0.1, 1024, 2.8e3),
    ):
        problem = Problem(agents=1, dim=2, arms=25, horizon=horizon)
        problem = problem.knowing(Noise(0.5), Range(0.0, 1.0), RKHS(1.0, low=-2.0, high=2.0))
        algorithm = PrivateGPUCB(constants="thesis", epsilon=epsilon, delta=delta)
        _, known = posed(algorithm, problem)
        found = reading(known, 50)
        assert isinstance(found, Regularised)
        assert found.bound() == pytest.approx(expected, rel=0.03)
        assert found.bound() > horizon


def test_printed_noise_by_its_formulas():
    problem = SMALL.world(100, np.random.SeedSequence(0)).problem
    stage, known = posed(PrivateGPUCB(constants="thesis", epsilon=2.0, delta=0.01), replace(problem, agents=1))
    assert isinstance(stage, PrintedGaussian)
    depth = 1 + math.ceil(math.log2(100))
    assert stage.noise(known) == pytest.approx(4 * math.sqrt(depth) * 2 * math.log(1000) / 2)
    local, known = posed(LDPGPUCB(constants="thesis", epsilon=2.0, delta=0.01), problem)
    assert local.noise(known) == pytest.approx(math.sqrt(8 * math.log(500)) / 2)
    bracket = 4 * math.sqrt(30) + 2 * math.log(2 * 100 * 5 / 0.1)
    spread = math.sqrt(8 * math.log(250)) / 2
    assert reading(known, 30).bound() == pytest.approx(spread * math.sqrt(100) * bracket)


@pytest.mark.parametrize(
    "algorithm",
    [PrivateGPUCB(**FEW, constants="thesis"), FedGPUCB(**FEW, constants="thesis"), LDPGPUCB(**FEW, constants="thesis")],
    ids=lambda one: one.about.name,
)
def test_printed_noise_spends_less_than_the_budget(algorithm):
    found = ended(algorithm).agents.protection()
    assert (found.spent < 1.0).all()
    assert (found.spent > 0.0).all()
    stage, known = posed(algorithm, SMALL.world(60, np.random.SeedSequence(0)).problem)
    worst = float(stage.sums(known).sensitivities[-1]) * math.sqrt(1.5) / stage.noise(known)
    np.testing.assert_allclose(found.spent, gaussian_epsilon(worst, 1e-5), rtol=1e-9)


def test_printed_constants_are_for_the_mechanisms_they_were_printed_for():
    with pytest.raises(ConfigError, match="say mechanism=tree"):
        FedGPUCB(constants="thesis", mechanism="toeplitz")
    with pytest.raises(ConfigError, match="unit=observation"):
        PrivateGPUCB(constants="thesis", unit="agent")


def test_arms_need_not_be_cut_down():
    with pytest.raises(ConfigError, match="features have norm 1"):
        FedGPUCB(arms=1.0)


# what it is good for


def test_company_makes_up_for_noise():
    """At epsilon = 5, 40 private agents have far less regret than by chance, and than private agents alone."""
    env = RKHSMixture(clients=40)
    together = fb.simulate(FedGPUCB(epsilon=5.0), env, 120, seed=1).regret[-1]
    assert together < 0.5 * fb.simulate("random", env, 120, seed=1).regret[-1]
    assert together < 0.7 * fb.simulate(PrivateGPUCB(epsilon=5.0), env, 120, seed=1).regret[-1]


def test_rewards_of_any_size_are_refused_or_cut_down():
    camel = Camelback(clients=3, arms=5)
    problem = camel.world(20, np.random.SeedSequence(0)).problem.without(Range)
    rng = Streams(np.random.SeedSequence(0), 3)
    with pytest.raises(ConfigError, match="rewards of any size have no sensitivity"):
        FedGPUCB().agents(problem, 3, rng)
    assert len(FedGPUCB(rewards=1.0).agents(problem, 3, rng)) == 3
