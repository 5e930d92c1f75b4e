"""Loops over turns are compiled where that pays, and runs do not depend on it."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.linalg import compiling
from fedbandits.linalg.jit import jit
from fedbandits.linalg.shelf import is_at_hand, kinds_of
from fedbandits.simulation import walking
from fedbandits.simulation.walking import WORTH_SECONDS, Spent, Walk, walk_for_want_of

ENVIRONMENT = "linear:clients=4,dim=3,arms=4"


@pytest.fixture
def nothing_at_hand(monkeypatch):
    """As on a machine on which nothing was compiled."""
    monkeypatch.setattr(walking, "is_at_hand", lambda *_: False)
    monkeypatch.setattr(walking, "is_loaded", lambda *_: False)
    monkeypatch.setattr(walking, "_spent", {})


def run_of(algorithm="dislinucb:threshold=0.3", horizon=60):
    return fb.Simulation(algorithm, ENVIRONMENT, horizon, seed=2)


def same(one, other):
    mine, others = one.state(), other.state()
    assert not [name for name in mine if not np.array_equal(mine[name], others[name])]


def played():
    run = run_of()
    run.compiled = True
    run.run()
    assert run.played == 60
    return run


class TestRuns:
    def test_a_loop_at_hand_is_taken_at_once(self):
        played()
        run = run_of()
        run.run()
        assert run.played == 60

    @pytest.mark.usefixtures("nothing_at_hand")
    def test_a_short_one_does_without(self):
        run = run_of()
        run.run()
        assert run.played == 0
        same(run, played())

    @pytest.mark.usefixtures("nothing_at_hand")
    def test_who_has_walked_for_long_enough_walks_no_further(self, monkeypatch):
        run = run_of()
        run.run(20)
        assert run.played == 0
        (spent,) = walking._spent.values()
        assert 0 < spent.seconds < WORTH_SECONDS
        monkeypatch.setattr(walking, "WORTH_SECONDS", spent.seconds / 2)
        run.run()
        assert run.played == 40
        another = run_of()  # which would use the same loop
        another.run()
        assert another.played == 60
        same(run, another)

    @pytest.mark.usefixtures("nothing_at_hand")
    def test_what_is_to_follow_counts(self):
        run = run_of()
        run.ahead = 10**7
        run.run()
        assert run.played == 60

    @pytest.mark.usefixtures("nothing_at_hand")
    @pytest.mark.parametrize(("said", "steps"), [(True, 60), (False, 0)])
    def test_somebody_who_says_so_is_obeyed(self, said, steps):
        run = run_of()
        run.compiled, run.ahead = said, 0 if said else 10**7
        run.run()
        assert run.played == steps

    def test_compiling_is_no_part_of_what_a_run_takes(self, monkeypatch):
        run = run_of()
        run.run()
        clock = iter([0.0, *[100.0] * 1000])
        monkeypatch.setattr(compiling, "seconds", lambda: next(clock))
        again = run_of()
        again.run()
        assert -100 < again.trace().seconds < -90


class TestWalk:
    def test_few_steps_tell_nothing_of_the_others(self):
        walk = Walk(Spent(), awake=1)
        for _ in range(15):
            walk.note(0.01)
            assert not walk.is_enough(ahead=10_000)
        walk.note(0.01)
        assert walk.is_enough(ahead=10_000)
        assert not walk.is_enough(ahead=100)

    def test_the_quickest_counts(self):
        walk = Walk(Spent(), awake=1)
        for seconds in [0.5, 0.001, *[0.01] * 20]:
            walk.note(seconds)
        rest = WORTH_SECONDS - 0.5 - 0.001 - 0.2
        assert walk.is_enough(ahead=int(1000 * rest) + 10)
        assert not walk.is_enough(ahead=int(1000 * rest) - 10)

    def test_runs_add_up(self):
        spent = Spent()
        for run in range(20):
            walk = Walk(spent, awake=1)
            assert walk.is_enough(ahead=1) == (run * 10 * 0.1 > WORTH_SECONDS - 0.01)
            for _ in range(10):
                walk.note(0.1)

    def test_many_agents_do_not_have_to_be_tried(self):
        """Nor may they: what a million of them see in a step takes gigabytes where the loop does without."""
        assert Walk(Spent(), awake=10**6).is_enough(ahead=5)
        assert not Walk(Spent(), awake=100).is_enough(ahead=1000)


def test_what_is_at_hand(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # where nobody has compiled anything before

    @jit
    def added(one, other):
        return one + other

    def at_hand(*arguments):
        return is_at_hand(added, kinds_of(added, arguments))

    assert not at_hand(1.0, 2.0)
    assert walk_for_want_of(added, (1.0, 2.0), 1) is not None
    added(1.0, 2.0)
    assert at_hand(3.0, 4.0)
    assert walk_for_want_of(added, (1.0, 2.0), 1) is None
    assert not at_hand(1, 2)  # for which it is another one
    assert walk_for_want_of(added.py_func, (1, 2), 1) is None  # nothing is ever compiled of it
