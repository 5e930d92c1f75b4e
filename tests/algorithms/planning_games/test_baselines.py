"""Agents of a game who learn alone: against the rule itself, and against LSVI-UCB."""

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.simulation.loop import Simulation


@pytest.mark.parametrize("rate", [0.5, "decaying"])
def test_q_learning_follows_its_rule(rate):
    env = fb.environments.TeamMDP(length=3)
    run = Simulation(fb.algorithms.QIndependent(rate=rate, epsilon=0.3, start=1.0), env, 120, 2)
    values, visits = {}, {}
    last = None
    for step in range(run.horizon):
        x, h = int(run.world.place), int(run.world.stage)
        table = values.setdefault((x, h), np.full(2, 3.0 - h))
        before = run.agents.chances(np.array([0]), run.world.turn(step).arms[:1])
        assert before[0].argmax() == table.argmax()
        run.run(1)
        if h:
            _update(values, visits, last, table.max(), rate)
        pick = int(run.agents.last[0, 1]) if h < 2 else _taken(run, x, before, values, visits, rate)
        if h < 2:
            last = (x, h, pick, float(run.agents.got[0]))
    assert len(values) > 3


def _update(values, visits, last, ahead, rate):
    x, h, action, got = last
    visits[last[:3]] = visits.get(last[:3], 0) + 1
    step = 4 / (3 + visits[last[:3]]) if rate == "decaying" else rate
    values[x, h][action] += step * (got + ahead - values[x, h][action])


def _taken(run, x, before, values, visits, rate):
    """The last step of an episode is complete at once: which it was shows in the table."""
    agents = run.agents
    block = run.world._arms[x][:, : agents.tables.views.arms.shape[2]]
    place = agents.tables.place(0, block)
    counted = agents.tables.visits[0, place, 2]
    action = int(np.flatnonzero(counted - [visits.get((x, 2, k), 0) for k in range(2)])[0])
    _update(values, visits, (x, 2, action, float(agents.got[0])), 0.0, rate)
    np.testing.assert_allclose(agents.tables.value[0, place, 2], values[x, 2])
    return action


def test_lsvi_that_sees_all_is_lsvi_ucb():
    env = fb.environments.GridExplore(size=3, clients=3, length=4)
    runs = [fb.simulate(kind(width=0.7), env, 80, 1) for kind in (fb.algorithms.LSVIIndependent, fb.algorithms.LSVIUCB)]
    np.testing.assert_array_equal(*(run.reward for run in runs))


def test_lsvi_that_sees_itself_does_not_depend_on_who_else_is_seen():
    runs = [
        fb.simulate(
            fb.algorithms.LSVIIndependent(width=0.7, sees="own"),
            fb.environments.GridExplore(size=3, clients=3, length=4, visibility=seen),
            80,
            1,
        )
        for seen in ("full", "self")
    ]
    assert len(runs[0].reward) == len(runs[1].reward) == 80
