"""Worlds that move by what is chosen in them: they are saved and resumed with the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import pytest
from pydantic import Field

import fedbandits as fb
from fedbandits.algorithms import UCB1, DisLinUCB, Random
from fedbandits.contract import state
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Noise, Truth
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World, parts_of

HORIZON = 60


class TiringWorld(World):
    """K arms that everybody shares. Who is chosen tires: `vigour` (K,) multiplies its mean, and comes back by rest."""

    keeps: ClassVar[tuple[str, ...]] = ("vigour",)

    def __init__(self, environment, horizon, seed):
        instance, self._noise = parts_of(seed, 2)
        n, arms = environment.clients, environment.arms
        self.problem = Problem(agents=n, dim=arms, arms=arms, horizon=horizon, facts=(Noise(0.1),))
        self._fresh = np.random.default_rng(instance).uniform(0.2, 1.0, arms)
        self._speed = environment.speed
        self._arms = np.broadcast_to(np.eye(arms), (n, arms, arms))
        self.vigour = np.ones(arms)

    def turn(self, step):
        return Turn(np.arange(self.problem.agents), self._arms)

    def pay(self, step, picks):
        means = self._fresh * self.vigour
        noise = np.random.default_rng([*self._noise.generate_state(2).tolist(), step]).normal(0, 0.1, len(picks))
        earned = means[picks]
        share = np.bincount(picks, minlength=len(means)) / len(picks)
        self.vigour[...] = (1 - self._speed * share) * (self.vigour + 0.1 * (1 - self.vigour))
        return Outcome(earned + noise, means.max() - earned, np.full(len(picks), means.mean()))

    def truth(self, step=0):
        return Truth((0,) * self.problem.agents)


@parameters
class Tiring:
    """Arms that tire by `speed` when everybody chooses them."""

    clients: Annotated[int, Field(ge=1)] = 4
    arms: Annotated[int, Field(ge=1)] = 5
    speed: Annotated[float, Field(ge=0, le=1)] = 0.5

    about: ClassVar[AboutEnvironment] = AboutEnvironment("tiring", "own", "arms that tire", "nowhere")

    def world(self, horizon, seed):
        return TiringWorld(self, horizon, seed)


def run(algorithm, steps=None, seed=0, **parameters):
    simulation = fb.Simulation(algorithm, Tiring(**parameters), HORIZON, seed)
    simulation.run(steps)
    return simulation


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("algorithm", [Random(), UCB1(), DisLinUCB(threshold=0.5)], ids=lambda one: one.about.name)
def test_a_run_goes_on_where_it_was_stopped_to_the_last_bit(algorithm):
    whole = run(algorithm)
    assert whole.world.vigour.min() < 0.9, "nothing has moved"
    for stop in (0, 1, 17, 59, 60):
        first = run(algorithm, stop)
        saved = state.from_bytes(state.to_bytes(first.state()))
        second = fb.Simulation(algorithm, Tiring(), HORIZON)
        second.load(saved)
        second.run()
        assert_same(second.state(), whole.state())
        np.testing.assert_array_equal(second.trace().regret, whole.trace().regret)


def test_the_first_run_is_not_touched_by_the_second():
    first = run(UCB1(), 20)
    before = first.state()
    second = fb.Simulation(UCB1(), Tiring(), HORIZON)
    second.load(first.state())
    second.run()
    assert_same(first.state(), before)


ELSEWHERE = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
import fedbandits as fb
from fedbandits.contract import state
from test_moving_worlds import HORIZON, Tiring

simulation = fb.Simulation(fb.algorithms.UCB1(), Tiring(), HORIZON)
simulation.load(state.from_bytes(sys.stdin.buffer.read()))
simulation.run()
sys.stdout.buffer.write(state.to_bytes(simulation.state()))
"""


@pytest.mark.slow
def test_a_run_goes_on_in_another_process():
    program = ELSEWHERE.format(here=str(Path(__file__).parent))
    saved = state.to_bytes(run(UCB1(), 20).state())
    done = subprocess.run([sys.executable, "-c", program], input=saved, capture_output=True, check=True)
    assert_same(state.from_bytes(done.stdout), run(UCB1()).state())


def test_the_world_is_part_of_the_snapshot_and_needed():
    saved = run(UCB1(), 20).state()
    assert saved["world.vigour"].shape == (5,)
    assert (saved["world.vigour"] < 1).any()
    other = run(UCB1(), 5)
    before = other.state()
    for broken in (
        {name: array for name, array in saved.items() if name != "world.vigour"},
        saved | {"world.vigour": np.ones(6)},
        saved | {"world.weather": np.ones(6)},
    ):
        with pytest.raises(ValueError, match=r"vigour|weather"):
            other.load(broken)
        assert_same(other.state(), before)


def test_seeds_and_choices_decide_where_it_goes():
    """Two seeds differ; one seed and the same choices do not; other choices lead elsewhere."""
    assert_same(run(UCB1()).state(), run(UCB1()).state())
    by_seed = [run(UCB1(), seed=seed).trace() for seed in (0, 1)]
    assert by_seed[0].regret[-1] != by_seed[1].regret[-1]
    assert by_seed[0].reward[0] != by_seed[1].reward[0]
    by_algorithm = [run(algorithm).world.vigour for algorithm in (UCB1(), Random())]
    assert (by_algorithm[0] != by_algorithm[1]).any()
    still = run(UCB1(), speed=0.0)
    np.testing.assert_array_equal(still.world.vigour, np.ones(5))


def test_tired_arms_earn_less_and_rest_brings_them_back():
    world = Tiring(clients=2).world(HORIZON, np.random.SeedSequence(0))
    best = int(world._fresh.argmax())
    paid = [world.pay(step, np.full(2, best)) for step in range(10)]
    assert world.vigour[best] < 0.6
    assert paid[-1].regrets.min() > 0 == paid[0].regrets.max()
    for step in range(10, 60):
        world.pay(step, np.full(2, (best + 1) % 5))
    assert world.vigour[best] > 0.95


def test_worlds_may_keep_still_and_say_nothing():
    class Still(World):
        problem = Problem(agents=1, dim=1, arms=1, horizon=1)

    assert Still().state() == {}
    assert Still().truth() is None
    assert Still().truth(3) is None
    assert Still().parameters() is None
    assert Still().mean_rewards() is None
    with pytest.raises(NotImplementedError):
        Still().turn(0)
    with pytest.raises(NotImplementedError):
        Still().pay(0, np.zeros(1, dtype=np.int64))


def test_what_is_no_world_is_refused():
    class Odd:
        def world(self, horizon, seed):
            return object()

    with pytest.raises(fb.ConfigError, match=r"environment: Odd\.world returned object, which is no World; make it a"):
        fb.simulate(Random(), Odd(), 5)


def test_parts_of_a_seed_are_the_same_at_every_call():
    """Unlike those that `spawn` makes."""
    seed = np.random.SeedSequence(7, spawn_key=(3,))
    first, second = ([part.generate_state(2).tolist() for part in parts_of(seed, 3)] for _ in range(2))
    assert first == second
    assert len({tuple(part) for part in first}) == 3
    assert first == [part.generate_state(2).tolist() for part in seed.spawn(3)]
