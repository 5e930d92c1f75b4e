"""A box in which agents name points: they are shown and paid, and a run goes on where it stopped."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ApproxDisKernelUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.environments import Cosine8, Hartmann6
from fedbandits.environments.proposing import SLOTS
from fedbandits.simulation.loop import Simulation
from fedbandits.testing import check_environment

SEED = np.random.SeedSequence(3)


def test_what_is_proposed_is_shown_cut_to_the_box_and_paid():
    environment = Cosine8(clients=3, arms=16, shown="proposed", noise=0.0, constant=True)
    world = environment.world(6, SEED)
    turn = world.turn(0)
    assert turn.arms.shape == (3, 16, 9)
    assert turn.room.slots == SLOTS
    named = np.random.default_rng(0).uniform(-2, 2, (3, SLOTS, 9))
    world.offer(0, named)
    shown = world.turn(0)
    np.testing.assert_array_equal(shown.arms[:, :-SLOTS], turn.arms[:, :-SLOTS])
    np.testing.assert_array_equal(shown.arms[:, -SLOTS:, :8], np.clip(named[..., :8], -1, 1))
    assert (shown.arms[..., 8] == 1).all()
    paid = world.pay(0, np.full(3, 15))
    wanted = environment.values(np.clip(named[:, -1, :8], -1, 1))
    np.testing.assert_allclose(paid.rewards, wanted)
    np.testing.assert_allclose(paid.regrets, 0.8 - wanted)
    after = world.turn(1)
    np.testing.assert_array_equal(after.arms[:, -SLOTS - 1, :8], np.clip(named[:, -1, :8], -1, 1))
    np.testing.assert_array_equal(after.arms, world.turn(1).arms)
    fresh = environment.world(6, SEED).turn(1)
    np.testing.assert_array_equal(after.arms[:, -SLOTS:], fresh.arms[:, -SLOTS:])


def test_odd_proposals_and_worlds_without_room_say_so():
    world = Hartmann6(clients=2, arms=8, shown="proposed").world(4, SEED)
    odd = np.full((2, SLOTS, 6), 0.5)
    odd[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="agent 1"):
        world.offer(0, odd)
    with pytest.raises(ValueError, match="room for"):
        world.offer(0, odd[:, :1])
    with pytest.raises(ValueError, match="no room"):
        Hartmann6(clients=2, arms=8).world(4, SEED).offer(0, odd)
    with pytest.raises(ConfigError, match="raise arms"):
        fb.simulate("random", f"hartmann6:shown=proposed,arms={SLOTS + 1}", 5, 0)


@pytest.mark.parametrize("given", [{}, {"constant": True, "schedule": "random"}, {"stragglers": 0.5, "presence": 0.4}])
@pytest.mark.parametrize("kind", [Hartmann6, Cosine8])
def test_promises(kind, given):
    check_environment(kind(clients=4, arms=9, shown="proposed", **given))


@pytest.mark.parametrize(
    "algorithm",
    [
        "fed-go-ucb:width=4,rounds=10,explore=9,threshold=0.5",
        "approx-dis-kernel-ucb:lengthscale=0.5,ridge=0.1,threshold=1",
        "dislinucb",
        "random",
    ],
)
def test_a_run_that_stopped_goes_on_in_the_same_place(algorithm):
    environment = Cosine8(clients=3, arms=10, shown="proposed")
    whole = fb.simulate(algorithm, environment, 30, 1)
    first = Simulation(algorithm, environment, 30, 1)
    first.run(11)
    second = Simulation(algorithm, environment, 30, 1)
    second.load(first.state())
    second.run()
    np.testing.assert_array_equal(second.trace().regret, whole.regret)


def test_agents_who_propose_come_closer_to_the_top_than_the_design_does():
    algorithm = ApproxDisKernelUCB(lengthscale=0.5, width=0.1, ridge=0.01, threshold=5.0)
    trace = fb.simulate(algorithm, Hartmann6(clients=10, arms=16, shown="proposed"), 40, 0)
    late = (trace.regret[-1] - trace.regret[-11]) / 100
    design = Hartmann6(clients=10, arms=16, shown="box").world(60, SEED)
    best = np.mean([Hartmann6().values(design.turn(step).arms).max(axis=1).mean() for step in range(20)])
    assert late < 0.5 * (Hartmann6.top - best)
