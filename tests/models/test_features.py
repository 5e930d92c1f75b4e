"""Optimists in a feature space: random Fourier features with offsets, against dense sums of all observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
import pytest
from pydantic import Field

import fedbandits as fb
from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.catalogue import About, AboutEnvironment
from fedbandits.contract.facts import Noise
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance, WireError
from fedbandits.contract.world import Outcome, Turn, World, parts_of
from fedbandits.linalg import kernels
from fedbandits.models.features import Features, Identity
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.sharing import COLLECT, statistics
from fedbandits.models.triggers import Trigger, both

N, D, K, P = 4, 3, 6, 7
SEED = np.random.SeedSequence(5)


class Fourier(Features):
    """phi(x) = sqrt(2/p) cos(W x + b), the same for everybody, times each agent's own `scale`; what is expected of an
    arm before anything is learned is `level` times its first coordinate.
    """

    keeps: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, dim, size, rng, level=0.0):
        self.dim, self.size = dim, size
        drawn = rng.common("fourier", size)
        self._directions, self._phases = drawn.normal(size=(dim, size)), drawn.uniform(0, 2 * np.pi, size)
        self._level = level
        self.scale = 1 + rng.identities / 10.0

    def of(self, who, arms):
        found = np.sqrt(2 / self.size) * np.cos(arms @ self._directions + self._phases)
        return found * self.scale[who][:, None, None]

    def offsets(self, who, arms):
        return self._level * arms[:, :, 0] if self._level else None


def constant(logdet, count):
    return np.full(len(logdet), 0.4)


def growing(logdet, count):
    return 0.1 * np.sqrt(10 + logdet) + 0.01 * count


def population(identities=None, level=0.0, rule=growing, size=P):
    rng = Streams(SEED, identities=np.arange(N) if identities is None else np.array(identities))
    models = RidgeModels(len(rng), size, 0.5)
    return OptimisticAgents(models, rule, Trigger(both, 1.0), features=Fourier(D, size, rng, level), counted=True)


def steps(count, seed=0):
    """Who is awake, what they see and what each arm would earn them."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        who = np.sort(rng.permutation(N)[: rng.integers(1, N + 1)])
        yield who, rng.standard_normal((len(who), K, D)), rng.standard_normal((len(who), K))


def earned(rewards, picks):
    return rewards[np.arange(len(picks)), picks]


@pytest.mark.parametrize("level", [0.0, 0.8])
@pytest.mark.parametrize("rule", [constant, growing])
def test_choices_and_estimates_are_those_of_dense_sums(level, rule):
    """Over all observations: V = sum phi phi^T + ridge I, theta = V^-1 sum (y - offset) phi, and the index of each arm
    is offset + <theta, phi> + width ||phi||_{V^-1}.
    """
    agents = population(level=level, rule=rule)
    space = agents.features
    seen = [([], []) for _ in range(N)]
    for who, arms, rewards in steps(60):
        picks = agents.choose(who, arms)
        offsets = level * arms[:, :, 0]
        for row, i in enumerate(who):
            phi = np.array([space.of(np.array([i]), arms[row][None])[0, k] for k in range(K)])
            x, y = np.array(seen[i][0]).reshape(-1, P), np.array(seen[i][1])
            V = x.T @ x + 0.5 * np.eye(P)
            theta = np.linalg.solve(V, x.T @ y)
            width = rule(np.array([np.linalg.slogdet(V)[1]]), np.array([len(y)]))[0]
            index = offsets[row] + phi @ theta + width * np.sqrt(np.einsum("ki,ij,kj->k", phi, np.linalg.inv(V), phi))
            assert index[picks[row]] == pytest.approx(index.max(), rel=1e-9)
            np.testing.assert_allclose(agents.models.theta[i], theta, atol=1e-9)
            seen[i][0].append(phi[picks[row]])
            seen[i][1].append(rewards[row, picks[row]] - offsets[row, picks[row]])
        agents.learn(who, arms, picks, earned(rewards, picks))
    centre, matrix, width = agents.ellipsoids()
    for i in range(N):
        x = np.array(seen[i][0])
        np.testing.assert_allclose(matrix[i], x.T @ x + 0.5 * np.eye(P), atol=1e-9)
        assert width[i] == pytest.approx(rule(np.array([np.linalg.slogdet(matrix[i])[1]]), np.array([len(x)]))[0])
        np.testing.assert_array_equal(centre[i], agents.models.theta[i])


@pytest.mark.parametrize("level", [0.0, 0.8])
def test_an_agent_alone_is_the_same_to_the_last_bit(level):
    together, alone = population(level=level), [population([i], level) for i in range(N)]
    for who, arms, rewards in steps(40):
        picks = together.choose(who, arms)
        together.learn(who, arms, picks, earned(rewards, picks))
        for row, i in enumerate(who):
            own = alone[i].choose(np.zeros(1, dtype=np.int64), arms[row : row + 1])
            assert own[0] == picks[row]
            alone[i].learn(np.zeros(1, dtype=np.int64), arms[row : row + 1], own, earned(rewards[row : row + 1], own))
    for i in range(N):
        mine, held = alone[i].state(), together.share(i)
        assert mine.keys() == held.keys()
        for name in mine:
            assert mine[name].tobytes() == held[name].tobytes(), name


def test_features_are_saved_with_their_agents():
    one = population(level=0.8)
    for who, arms, rewards in steps(20):
        picks = one.choose(who, arms)
        one.learn(who, arms, picks, earned(rewards, picks))
    one.features.scale[2] = 3.0
    saved = one.state()
    np.testing.assert_array_equal(saved["features.scale"], [1.0, 1.1, 3.0, 1.3])
    other = population(level=0.8)
    other.load(saved)
    for who, arms, rewards in steps(20, seed=1):
        picks = one.choose(who, arms)
        np.testing.assert_array_equal(picks, other.choose(who, arms))
        for agents in (one, other):
            agents.learn(who, arms, picks, earned(rewards, picks))
    for name, array in one.state().items():
        assert array.tobytes() == other.state()[name].tobytes()
    with pytest.raises(ValueError, match=r"lacks features\.scale"):
        other.load({name: array for name, array in saved.items() if name != "features.scale"})


def test_exact_ties_go_to_the_lowest_index_with_offsets_too():
    agents = population(level=0.8)
    arms = np.repeat(np.random.default_rng(0).standard_normal((N, 1, D)), K, axis=1)
    assert agents.choose(np.arange(N), arms).tolist() == [0] * N


def test_sizes_have_to_fit():
    with pytest.raises(ValueError, match="features of size 7 need models of that size, not of 6"):
        OptimisticAgents(RidgeModels(N, 6, 1.0), constant, features=population().features)
    agents = population()
    with pytest.raises(ValueError, match=r"\(4, K, 3\)"):
        agents.choose(np.arange(N), np.ones((N, K, P)))
    before = agents.state()
    arms = np.ones((N, K, D))
    arms[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        agents.learn(np.arange(N), arms, np.zeros(N, dtype=np.int64), np.ones(N))
    for name, array in agents.state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("level", [0.0, 0.8])
def test_arms_without_a_score_are_refused(level):
    arms = np.ones((N, K, D))
    arms[2, 3, 1] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=r"agents \[2\] are not finite"):
        population(level=level).choose(np.arange(N), arms)


def test_without_a_trigger_nobody_calls():
    quiet = OptimisticAgents(RidgeModels(N, D, 1.0), constant)
    quiet.learn(np.arange(N), np.ones((N, 1, D)), np.zeros(N, dtype=np.int64), np.ones(N))
    assert not quiet.calling().any()
    assert quiet.urgency() is None
    agents = population()
    assert not agents.calling().any()
    for _ in range(8):
        agents.learn(np.arange(N), np.ones((N, 1, D)), np.zeros(N, dtype=np.int64), np.ones(N))
    assert agents.calling().all()
    assert (agents.urgency() >= 1).all()
    with pytest.raises(WireError, match="OptimisticAgents do not understand 'hello'"):
        agents.answer(Message("hello", np.arange(N)))
    with pytest.raises(NotImplementedError, match="give a width rule"):
        OptimisticAgents(RidgeModels(N, D, 1.0)).choose(np.arange(N), np.ones((N, K, D)))


# --- the arms themselves, at no cost


class Watching(RidgeModels):
    """Notes what reaches it."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen = []

    def choose(self, who, arms, width):
        self.seen.append(arms)
        return super().choose(who, arms, width)

    def learn(self, who, arms, picks, rewards):
        self.seen.append(arms)
        return super().learn(who, arms, picks, rewards)


@pytest.mark.parametrize("schedule", ["all", "random"])
def test_identity_makes_no_copy(schedule):
    """What an environment shows is what the kernels read: no copy between, for choosing and for learning."""
    world = fb.environments.Linear(clients=N, dim=D, arms=K, schedule=schedule).world(5, np.random.SeedSequence(0))
    models = Watching(N, D, 1.0)
    agents = OptimisticAgents(models, constant)
    assert isinstance(agents.features, Identity)
    assert agents.features.offsets(np.arange(N), np.ones((N, K, D))) is None
    for step in range(5):
        turn = world.turn(step)
        assert agents.features.of(turn.who, turn.arms) is turn.arms
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        assert [seen is turn.arms for seen in models.seen[-2:]] == [True, True]
        lanes = kernels.as_lanes(turn.arms)
        assert np.shares_memory(lanes, turn.arms)
        assert lanes.__array_interface__["data"] == turn.arms.__array_interface__["data"]


def test_identity_keeps_nothing():
    """Snapshots of linear agents are what they were before there were features."""
    agents = OptimisticAgents(RidgeModels(N, D, 1.0), constant)
    assert all(name.startswith("models.") for name in agents.state())


# --- federated: a pool of statistics of size p, for rewards that no linear model fits


class WavyWorld(World):
    """Mean rewards sin(4 <theta, x>) of fresh arms: monotone in no direction."""

    def __init__(self, n, horizon, seed):
        instance, self._turns = parts_of(seed, 2)
        theta = np.random.default_rng(instance).standard_normal(2)
        self._theta = theta / np.linalg.norm(theta)
        self.problem = Problem(agents=n, dim=2, arms=K, horizon=horizon, facts=(Noise(0.1),))

    def _drawn(self, step):
        rng = np.random.default_rng([*self._turns.generate_state(2).tolist(), step])
        arms = rng.uniform(-1, 1, (self.problem.agents, K, 2))
        return arms, np.sin(4 * arms @ self._theta), rng.normal(0, 0.1, self.problem.agents)

    def turn(self, step):
        return Turn(np.arange(self.problem.agents), self._drawn(step)[0])

    def pay(self, step, picks):
        _, means, noise = self._drawn(step)
        got = earned(means, picks)
        return Outcome(got + noise, means.max(axis=1) - got, means.mean(axis=1))


@parameters
class Wavy:
    about: ClassVar[AboutEnvironment] = AboutEnvironment("wavy", "own", "sines", "nowhere")

    def world(self, horizon, seed):
        return WavyWorld(3, horizon, seed)


@parameters
class FourierLinUCB(LinearParameters):
    """DisLinUCB in a space of random Fourier features that everybody draws alike."""

    size: Annotated[int, Field(ge=1)] = 40
    threshold: Annotated[float, Field(ge=0)] = 1.0

    about: ClassVar[About] = replace(
        fb.algorithms.DisLinUCB.about,
        name="fourier-linucb",
        says=(
            COLLECT,
            Utterance("fresh", "up", statistics("p", adds="increment", pooled=True)),
            Utterance("pool", "down", statistics("p", adds="total")),
        ),
    )

    def sizes(self, problem):
        return {"p": self.size}

    def agents(self, problem, n, rng):
        models, features = RidgeModels(n, self.size, self.ridge), Fourier(problem.dim, self.size, rng)
        trigger = Trigger(both, self.threshold, strict=True)
        return OptimisticAgents(models, self.widths(problem, self.size), trigger, features=features)

    def server(self, problem, n, rng):
        return PoolServer(self, n, self.size, collects="everybody", tells="everybody")


def test_a_federation_in_a_feature_space():
    features, arms = (
        fb.simulate(algorithm, Wavy(), 300)
        for algorithm in (FourierLinUCB(width=0.3, ridge=0.1), fb.algorithms.DisLinUCB(width=0.3, threshold=1.0))
    )
    assert features.regret[-1] < 0.5 * arms.regret[-1]
    assert features.syncs[-1] > 3
    np.testing.assert_array_equal(features.scalars, features.messages * (40 * 40 + 40))
