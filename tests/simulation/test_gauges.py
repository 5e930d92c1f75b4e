"""Gauges: measurements while a run goes on, those that come with the library and one's own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import DisLinUCB, IndependentLinUCB, Random
from fedbandits.simulation.gauges import Coverage, Epsilon, Gauge, covers

ENV = fb.environments.Linear(clients=4, dim=3, arms=5)


class Distance(Gauge):
    """The mean distance of estimates to the truth."""

    name: ClassVar[str] = "distance"

    @classmethod
    def on(cls, run):
        if run.agents.ellipsoids() is None or run.world.parameters() is None:
            return None
        return cls(run)

    def read(self, step):
        centre, _, _ = self._run.agents.ellipsoids()
        return np.linalg.norm(centre - self._run.world.parameters(), axis=1).mean()


class Busiest(Gauge):
    """The most decisions that any arm has had, by its place: it keeps counts of its own."""

    keeps: ClassVar[tuple[str, ...]] = ("values", "taken")
    name: ClassVar[str] = "busiest"

    def __init__(self, run):
        super().__init__(run)
        self.taken = np.zeros(run.world.problem.arms, dtype=np.int64)
        choose = run.agents.choose

        def watched(who, arms):
            picks = choose(who, arms)
            np.add.at(self.taken, picks, 1)
            return picks

        run.agents.choose = watched

    def read(self, step):
        return float(self.taken.max())


def simulation(algorithm, steps=None, horizon=40, gauges=(Distance, Busiest), **options):
    run = fb.Simulation(algorithm, ENV, horizon, 3, gauges=gauges, **options)
    run.run(steps)
    return run


def test_ones_own_is_read_after_every_step_and_becomes_a_column():
    trace = fb.simulate(IndependentLinUCB(), ENV, 40, 3, gauges=[Distance, Busiest])
    assert trace.gauges.keys() == {"distance", "busiest"}
    assert trace.gauges["distance"].shape == (40,)
    assert trace.gauges["distance"][-1] < 0.5 * trace.gauges["distance"][0]
    assert (np.diff(trace.gauges["busiest"]) >= 0).all()
    assert trace.gauges["busiest"][-1] >= 40 * 4 / 5
    frame = trace.frame(10)
    assert list(frame)[-2:] == ["distance", "busiest"]
    np.testing.assert_array_equal(frame["distance"], trace.gauges["distance"][frame["step"] - 1])
    plain = fb.simulate(IndependentLinUCB(), ENV, 40, 3)
    np.testing.assert_array_equal(trace.regret, plain.regret)
    assert "distance" not in plain.frame()


def test_by_hand():
    """What it shows after step t is what is true then: everybody has learned and talked."""
    run = simulation(DisLinUCB(threshold=0.3), 0)
    for step in range(40):
        run.run(1)
        gap = run.agents.models.theta - run.world.theta
        assert run.trace().gauges["distance"][step] == np.linalg.norm(gap, axis=1).mean()


def test_gauges_are_saved_and_resumed_with_the_run():
    whole = simulation(IndependentLinUCB(width=0.3), coverage=True)
    first = simulation(IndependentLinUCB(width=0.3), 15, coverage=True)
    saved = first.state()
    assert {"gauge-distance.values", "gauge-busiest.taken", "gauge-coverage.covered"} <= saved.keys()
    second = simulation(IndependentLinUCB(width=0.3), 0, coverage=True)
    second.load(saved)
    second.run()
    for name, values in whole.trace().gauges.items():
        np.testing.assert_array_equal(values, second.trace().gauges[name], err_msg=name)
    np.testing.assert_array_equal(whole._gauges["busiest"].taken, second._gauges["busiest"].taken)
    assert np.isfinite(second.trace().gauges["distance"]).all()


def test_a_snapshot_with_other_gauges_is_refused():
    run = simulation(IndependentLinUCB(), 5)
    with pytest.raises(ValueError, match="gauge-busiest: the snapshot lacks values"):
        run.load(simulation(IndependentLinUCB(), 5, gauges=(Distance,)).state() | {"gauge-busiest.taken": np.zeros(2)})
    with pytest.raises(ValueError, match="gauge-distance"):
        simulation(IndependentLinUCB(), 5, gauges=()).load(run.state())


def test_where_there_is_nothing_to_measure_there_is_no_gauge():
    """Random choices have no estimate: the column is left out, and the run goes on."""
    trace = fb.simulate(Random(), ENV, 10, gauges=[Distance])
    assert trace.gauges == {}
    assert "distance" not in trace.frame()
    lone = fb.Simulation(Random(), ENV, 10)
    assert Distance.on(lone) is None
    assert Coverage.on(lone) is None
    assert Epsilon.on(lone) is None


def test_what_gauges_share_with_the_table_has_its_place_there():
    trace = fb.simulate(IndependentLinUCB(), ENV, 10, coverage=True, gauges=[Distance])
    columns = list(trace.frame())
    assert columns.count("coverage") == 1
    assert columns.index("coverage") < columns.index("distance") == len(columns) - 1


def test_a_trace_that_was_stopped_holds_what_was_read_so_far():
    run = simulation(IndependentLinUCB(), 7)
    assert run.trace().gauges["distance"].shape == (7,)
    early = run.trace().gauges["distance"]
    early[:] = 0.0
    assert run.trace().gauges["distance"].all(), "a copy was shown"


def test_gauges_have_to_say_what_they_read():
    class Silent(Gauge):
        name = "silent"

    run = fb.Simulation(Random(), ENV, 10, gauges=[Silent])
    assert np.isnan(run._gauges["silent"].values).all()
    with pytest.raises(NotImplementedError):
        run.run(1)


def test_names_are_not_used_twice():
    class Regret(Distance):
        name = "regret"

    class Distances(Distance):
        pass

    with pytest.raises(fb.ConfigError, match="gauges: 'regret' is a metric of every run; give Regret another name"):
        fb.simulate(Random(), ENV, 5, gauges=[Distance, Regret])
    with pytest.raises(
        fb.ConfigError, match="gauges: two of them are called 'distance'; give one of them another name"
    ):
        fb.simulate(Random(), ENV, 5, gauges=[Distance, Distances])
    asked = fb.simulate(IndependentLinUCB(), ENV, 5, gauges=[Coverage, Epsilon])
    np.testing.assert_array_equal(asked.coverage, fb.simulate(IndependentLinUCB(), ENV, 5, coverage=True).coverage)


# --- coverage


def test_ellipsoids_cover_what_lies_in_them():
    centre = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    matrix = np.array([np.eye(2), np.diag([4.0, 1.0]), np.diag([1.0, 100.0])])
    width = np.array([1.0, 2.0, 1.0])
    assert covers((centre, matrix, width), np.array([[0.0, 1.0]])).tolist() == [True, False, False]
    own = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    assert covers((centre, matrix, width), own).tolist() == [True, True, True]


def test_coverage_counts_who_was_covered_at_every_check():
    run = fb.Simulation(IndependentLinUCB(width=0.2), ENV, 60, coverage=True)
    held = np.ones(4, dtype=bool)
    for step in range(60):
        run.run(1)
        held &= covers(run.agents.ellipsoids(), run.world.parameters())
        assert run.trace().coverage[step] == held.mean()
    assert 0 <= held.mean() < 1


@pytest.mark.parametrize("horizon", [99, 250, 1000])
def test_long_runs_are_checked_about_a_hundred_times(horizon):
    run = fb.Simulation(IndependentLinUCB(), ENV, horizon, coverage=True)
    checks = 0

    def counted():
        nonlocal checks
        checks += 1
        return np.zeros((4, 3)), np.tile(np.eye(3), (4, 1, 1)), np.full(4, 9.0)

    run.agents.ellipsoids = counted
    run.run()
    assert checks == horizon // max(1, horizon // 100)
    assert run.trace().coverage[-1] == 1.0
