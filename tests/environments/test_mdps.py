"""Finite MDPs: exact values, exact regret, worlds that move, and episodes that are over early."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.facts import Episodes
from fedbandits.environments import MDPs, MDPWorld
from fedbandits.testing import check_environment


def tiny(rng, ends=(False, False, False)):
    moves = rng.dirichlet(np.ones(3), (1, 2, 3, 2))
    return MDPs(moves, rng.random((1, 2, 3, 2)), np.array([0.5, 0.5, 0.0]), np.array(ends), 2)


def test_backward_induction_finds_the_best_of_all_policies():
    for ends in ((False, False, False), (False, False, True)):
        mdps = tiny(np.random.default_rng(1), ends)
        policies = np.array(list(itertools.product(range(2), repeat=6))).reshape(-1, 1, 2, 3)
        values = np.stack([mdps.values(policy) for policy in policies])
        np.testing.assert_allclose(values.max(axis=0), mdps.best[0])


def test_regret_of_steps_adds_up_to_that_of_values():
    """Over many episodes of a fixed policy the mean of summed V* - Q* is V* - V^pi."""
    env = fb.environments.LinearMDP(clients=400, states=5, dim=3, arms=3, length=3)
    world = env.world(300, np.random.SeedSequence(4))
    rng = np.random.default_rng(0)
    policy = rng.integers(3, size=(1, 3, 5))
    total, episodes = 0.0, 0
    for step in range(300):
        world.turn(step)
        picks = policy[0, world.stage, world.place]
        total += world.pay(step, picks).regrets.sum()
        episodes += 400 * ((step + 1) % 3 == 0)
    gap = (world.mdps.best[0][0, 0] - world.mdps.values(policy)[0, 0]).mean()  # episodes begin anywhere
    assert total / episodes == pytest.approx(gap, rel=0.02)


def test_river_swimmers_have_to_plan():
    """The best policy swims, and is worth far more than to drift."""
    mdps = fb.environments.RiverSwim(states=6, length=20).world(1, np.random.SeedSequence(0)).mdps
    drift = mdps.pays[0, 0, 0].argmax()
    assert mdps.best[0][0, 0, 0] > 10 * 20 * mdps.pays[0, 0, 0, drift]


def test_deviating_mdps_are_no_farther_apart_than_they_say():
    xi = 0.3
    world = fb.environments.LinearMDP(clients=4, deviation=xi).world(1, np.random.SeedSequence(0))
    moves, pays = world.mdps.moves, world.mdps.pays
    for one, other in itertools.combinations(range(4), 2):
        assert 0 < 0.5 * np.abs(moves[one] - moves[other]).sum(axis=-1).max() <= xi + 1e-12
        assert 0 < np.abs(pays[one] - pays[other]).max() <= xi
    np.testing.assert_allclose(moves.sum(axis=-1), 1.0)


def test_an_episode_that_is_over_early_says_so_by_zeros():
    """Agents then begin a new one, and have learned that nothing came after."""
    problem = fb.environments.LinearMDP(clients=1, length=4).world(40, np.random.SeedSequence(0)).problem
    moves = np.zeros((1, 1, 2, 2, 2))
    moves[..., 1] = 1.0
    mdps = MDPs(moves, np.full((1, 1, 2, 2), 0.5), np.array([1.0, 0.0]), np.array([False, True]), 4)
    features = np.eye(4)[:, :4].reshape(2, 2, 4)
    problem = type(problem)(agents=1, dim=4, arms=2, horizon=40).knowing(Episodes(4))
    world = MDPWorld(problem, mdps, np.zeros(1, dtype=np.int64), features, "all", np.random.SeedSequence(0))
    agents = fb.algorithms.LSVIUCB(width=0.5).agents(problem, 1, _streams())
    rewards = []
    for step in range(10):
        turn = world.turn(step)
        assert turn.arms.any() == (step % 2 == 0)
        picks = agents.choose(turn.who, turn.arms)
        paid = world.pay(step, picks).rewards
        agents.learn(turn.who, turn.arms, picks, paid)
        rewards.append(paid[0])
    assert rewards == [0.5, 0.0] * 5
    assert agents.own.number.sum() == 5  # one stage each
    assert (agents.own.to[0, : agents.own.rows[0]] == -1).all()
    assert agents.own.views.count[0] == 1


def test_an_agent_that_sleeps_goes_on_where_it_was():
    env = fb.environments.LinearMDP(clients=6, length=4, stragglers=0.5, presence=0.3)
    run = fb.Simulation(fb.algorithms.FedLSVIRare(width=0.5), env, 60, seed=1)
    run.run()
    np.testing.assert_array_equal(run.agents.stage, run.world.stage)
    assert len(set(run.agents.stage.tolist())) > 1  # they are not in step


def _streams():
    from fedbandits.contract.streams import Streams

    return Streams(np.random.SeedSequence(0), 1)


# --- Gymnasium


def test_frozen_lake_keeps_the_promises_and_its_regret_is_exact():
    pytest.importorskip("gymnasium")
    check_environment(fb.environments.Gymnasium(clients=2, length=12), horizon=40)
    env = fb.environments.Gymnasium(clients=2, length=12, options={"is_slippery": False})
    world = env.world(40, np.random.SeedSequence(0))
    down, right = 1, 2
    for step, action in enumerate([down, down, right, right, down, right]):  # the shortest way
        world.turn(step)
        outcome = world.pay(step, np.array([action, 0]))
        assert outcome.regrets[0] == 0
    assert outcome.rewards[0] == 1.0
    assert not world.turn(6).arms[0].any()


def test_environments_of_gymnasium_are_worlds():
    gymnasium = pytest.importorskip("gymnasium")

    class Cabs(fb.environments.Gymnasium):
        """Taxi by its four coordinates, which is an approximation: a table would have 3000 columns."""

        def _map(self, space):
            sizes = np.array([5, 5, 5, 4])
            ends = np.cumsum(sizes)

            def states(seen):
                found = np.zeros(ends[-1])
                places = np.unravel_index(int(seen), tuple(sizes))
                found[np.array(places) + ends - sizes] = 0.5
                return found

            return int(ends[-1]), states

    taxi = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
    for env, steps in (
        (Cabs(id=taxi, clients=2, length=8), 40),
        (fb.environments.Gymnasium(id="CliffWalking-v1", clients=1, length=3), 9),
        (fb.environments.Gymnasium(id="CartPole-v1", clients=2, length=10, low=0, high=1), 60),
    ):
        trace = fb.simulate("fedlsvi-rare:width=0.5", env, steps, seed=0)
        assert trace.decisions[-1] == steps * env.clients
    with pytest.raises(fb.ConfigError, match="actions of Pendulum-v1 are not numbered"):
        fb.simulate("random", fb.environments.Gymnasium(id="Pendulum-v1"), 5)
