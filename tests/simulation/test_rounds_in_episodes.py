"""Turns of planners, played by compiled functions in worlds that move, are the turns that Python would have played."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.planning.planners import Planners
from fedbandits.models.ridge import REFRESH_EVERY
from fedbandits.simulation.gauges import Gauge


class Ending(fb.environments.RandomMDP):
    """Episodes are over early in the last state."""

    def _limits(self, states):
        return np.full(states, 1 / states), np.arange(states) == states - 1


class Crowded(fb.environments.LinearMDP):
    """More actions than there is room for at first, and one state that looks like zero in places."""

    def _features(self, rng):
        features = super()._features(rng)
        features[0, :, 1:] = -0.0
        return features


ALGORITHMS = (
    "lsvi-ucb:width=0.3",
    "central-lsvi:width=0.3",
    "fedlsvi-dense:width=0.3,threshold=0.5",
    "fedlsvi-rare:width=0.3,threshold=1.5",
    "fedlsvi-rare:width=0.3,every=3",
)
WORLDS = {
    "riverswim": lambda **more: fb.environments.RiverSwim(clients=3, states=5, length=6, **more),
    "deep-sea": lambda **more: fb.environments.DeepSea(clients=3, length=4, **more),
    "ending": lambda **more: Ending(clients=4, states=4, arms=3, length=5, **more),
    "dense": lambda **more: fb.environments.LinearMDP(clients=4, states=7, dim=6, arms=5, length=3, **more),
    "apart": lambda **more: fb.environments.LinearMDP(clients=3, dim=3, arms=2, length=3, deviation=0.2, **more),
    "crowded": lambda **more: Crowded(clients=2, states=5, dim=4, arms=19, length=2, **more),
}


def run_of(algorithm, environment, horizon, **options):
    return fb.Simulation(algorithm, environment, horizon, seed=3, **options)


def stepped(algorithm, environment, horizon, **options):
    run = run_of(algorithm, environment, horizon, **options)
    run.compiled = False
    run.run()
    return run


def played(algorithm, environment, horizon, pieces=()):
    """Without a single step in Python."""
    run = run_of(algorithm, environment, horizon)
    run.compiled = True
    run._step = lambda step: pytest.fail(f"step {step} was not played by compiled functions")
    for steps in pieces:
        run.run(steps)
    run.run()
    return run


def same(one, other):
    """All that is kept, what was read of episodes included."""
    mine, others = one.state(), other.state()
    assert mine.keys() == others.keys()
    assert not [name for name in mine if not np.array_equal(mine[name], others[name], equal_nan=True)]


@pytest.mark.parametrize("schedule", ["all", "random", "round-robin"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_both_ways_make_one_run(algorithm, schedule):
    horizon = 80 if schedule == "all" else 260
    for world in WORLDS.values():
        environment = world(schedule=schedule)
        by_hand = stepped(algorithm, environment, horizon)
        same(played(algorithm, environment, horizon, pieces=(1, 2, 13, 1)), by_hand)
        assert by_hand.trace().gauges["episodes"][-1] > 10


def test_turns_of_both_kinds_may_follow_each_other():
    run = run_of(ALGORITHMS[2], WORLDS["ending"](), 90)
    for piece, steps in enumerate((4, 7, 1, 30, 2, 46)):
        run.compiled = piece % 2 == 0
        run.run(steps)
    same(run, stepped(ALGORITHMS[2], WORLDS["ending"](), 90))


def test_a_run_goes_on_from_a_snapshot_in_the_middle_of_an_episode():
    first, second = (run_of(ALGORITHMS[0], WORLDS["riverswim"](), 200) for _ in range(2))
    first.run(101)
    second.load(first.state())
    second.run()
    same(second, stepped(ALGORITHMS[0], WORLDS["riverswim"](), 200))


def test_models_are_refreshed_in_time():
    environment, horizon = fb.environments.LinearMDP(clients=1, states=3, dim=2, arms=2, length=1), REFRESH_EVERY + 40
    run = played(ALGORITHMS[0], environment, horizon)
    assert (run.agents.models.updates < 60).all()
    same(run, stepped(ALGORITHMS[0], environment, horizon))


def test_where_somebody_is_away_turns_are_played_step_by_step():
    environment = WORLDS["dense"](stragglers=0.5)
    assert run_of(ALGORITHMS[0], environment, 60).world.block(0) is None
    same(stepped(ALGORITHMS[0], environment, 60), _finished(run_of(ALGORITHMS[0], environment, 60)))


class Turns(Gauge):
    """How many turns of their episodes agents have had: something of its own to read after every step."""

    name = "turns"

    def read(self, step):
        return float(self._run.episodes.stage.sum())


def test_other_gauges_are_read_after_every_step():
    run = _finished(run_of(ALGORITHMS[0], WORLDS["ending"](), 60, gauges=[Turns]))
    assert len(np.unique(run.trace().gauges["turns"])) > 3
    assert np.array_equal(run.trace().regret, played(ALGORITHMS[0], WORLDS["ending"](), 60).trace().regret)


class Forgetful(Planners):
    """Agents that have another idea of the end of an episode."""

    def closed(self, who):
        self.since[who, 0] += 1


def test_who_does_something_else_is_not_spoken_for():
    agents = run_of(ALGORITHMS[0], WORLDS["dense"](), 10).agents
    assert agents.compiled() is not None
    agents.situate(np.array([1]), np.array([2]))  # is told a stage, and does not count
    assert agents.compiled() is None
    parts = agents.features, agents.own, agents.pool, agents.models, agents.beta, agents._most
    assert Forgetful(*parts).compiled() is None
    assert Planners(*parts).compiled() is not None
    appended = run_of("fedlsvi-heterogeneous", "agent-mdp:clients=3,length=3", 10).agents
    assert appended.compiled() is None  # what they see of arms is not the arms


def test_a_world_that_shows_more_than_its_problem_says_is_refused():
    run = run_of(ALGORITHMS[0], WORLDS["crowded"](), 20)
    run.agents.own.views.widest = 3
    with pytest.raises(ValueError, match="more arms than the problem says"):
        run.run()


def _finished(run):
    run.run()
    return run
