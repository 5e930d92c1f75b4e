"""A box that can be climbed: what is shown follows what is chosen, and a run goes on where it stopped."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ApproxDisKernelUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.environments import Cosine8, Hartmann6
from fedbandits.environments.refining import FIRST, LAST, around
from fedbandits.simulation.loop import Simulation

SEED = np.random.SeedSequence(3)


def test_what_is_around_a_choice_is_one_step_away():
    world = Cosine8(clients=3, arms=40, shown="refined", noise=0.0).world(6, SEED)
    fresh = 40 - around(8)
    arms = world.turn(0).arms
    assert arms.shape == (3, 40, 8)
    np.testing.assert_array_equal(arms, world.turn(0).arms)
    picks = np.array([2, 5, 7])
    paid = world.pay(0, picks)
    np.testing.assert_allclose(paid.rewards, Cosine8().values(arms[np.arange(3), picks]))
    np.testing.assert_allclose(paid.regrets, 0.8 - paid.rewards)
    near = world.turn(1).arms[:, fresh:]
    chosen = arms[np.arange(3), picks]
    np.testing.assert_array_equal(near[:, 0], chosen)
    for axis in range(8):
        for row, sign in ((1 + axis, 1), (9 + axis, -1)):
            moved = chosen.copy()
            moved[:, axis] = np.clip(moved[:, axis] + sign * 2 * FIRST, -1, 1)
            np.testing.assert_allclose(near[:, row], moved)


def test_to_stay_is_to_look_closer_and_a_new_point_begins_anew():
    world = Hartmann6(clients=2, arms=30, shown="refined").world(20, SEED)
    fresh = 30 - around(6)
    for step in range(12):
        world.pay(step, np.full(2, fresh))
    np.testing.assert_array_equal(world.stride, np.full(2, LAST))
    world.pay(12, np.array([0, fresh]))
    np.testing.assert_array_equal(world.stride, [FIRST, LAST])
    before, here = world.before[0].copy(), world.centre[0].copy()
    again = world.turn(13).arms[0, -1]
    np.testing.assert_allclose(again, np.clip(2 * here - before, 0, 1))


def test_only_those_who_decide_move():
    world = Hartmann6(clients=4, arms=30, shown="refined", schedule="round-robin", constant=True).world(8, SEED)
    assert (world.turn(0).arms[..., -1] == 1).all()
    held = world.centre.copy()
    world.pay(0, np.array([1]))
    assert (world.centre != held).any(axis=1).sum() == 1


def test_a_run_that_stopped_goes_on_in_the_same_place():
    environment = Cosine8(clients=3, arms=32, shown="refined")
    whole = fb.simulate("dislinucb", environment, 30, 1)
    first = Simulation("dislinucb", environment, 30, 1)
    first.run(11)
    second = Simulation("dislinucb", environment, 30, 1)
    second.load(first.state())
    second.run()
    np.testing.assert_array_equal(second.trace().regret, whole.regret)


def test_agents_who_climb_come_closer_to_the_top_than_the_design_does():
    algorithm = ApproxDisKernelUCB(lengthscale=0.5, width=0.3, ridge=0.01, threshold=5.0)
    trace = fb.simulate(algorithm, Hartmann6(clients=10, arms=64, shown="refined"), 60, 0)
    late = (trace.regret[-1] - trace.regret[-11]) / 100
    design = Hartmann6(clients=10, arms=64, shown="box").world(60, SEED)
    best = np.mean([Hartmann6().values(design.turn(step).arms).max(axis=1).mean() for step in range(20)])
    assert late < 0.5 * (Hartmann6.top - best)


def test_there_is_room_for_both():
    with pytest.raises(ConfigError, match="raise arms"):
        fb.simulate("random", "hartmann6:shown=refined,arms=14", 5, 0)
    with pytest.raises(ConfigError, match="unit"):
        fb.simulate("random", "hartmann6:shown=box,unit=true", 5, 0)
    rng = np.random.default_rng(0)
    for kind in (Hartmann6(), Cosine8(), Cosine8(literal=True)):
        assert kind.values(kind.low + (kind.high - kind.low) * rng.random((5000, kind.inputs))).max() <= kind.top
