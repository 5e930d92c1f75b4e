"""A schedule in place of a trigger that depends on data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedbandits as fb
from conformance.subjects import CLIENTS, about, home, subject
from conformance.typical import typical_first
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import ConfigError
from fedbandits.models.paced import Paced
from fedbandits.testing import BrokenPromiseError
from fedbandits.testing.subject import Subject
from fedbandits.testing.suite import Check

PACED = sorted(name for name, kind in ALGORITHMS.items() if issubclass(kind, Paced))
FOUND = {name for name in PACED if name.startswith("hetofedbandit")}
"""Those whose clusters, and with them who is served when, are found in data."""
FREE = [name for name in PACED if name not in FOUND]
PLANNING = {name for name in PACED if about(name).family == "planning"}
"""Those whose schedules count episodes."""
EVERY = 4
HORIZON = 30
SMALL = {"hetofedbandit": {"explore": 6}, "hetofedbandit-pq": {"explore": 6}, "hetofedbandit-async": {"explore": 6}}


def paced(name, every=EVERY):
    return ALGORITHMS[name](every=every, **SMALL.get(name, {}))


def at_home(name, **schedule):
    return Subject(paced(name), home(name, **schedule), None, HORIZON, seed=3)


def test_whoever_calls_by_data_at_a_server_can_have_a_schedule():
    """But for phases, whose lengths are what the algorithm is about, and planners that hand over transitions."""
    by_data = {name for name in ALGORITHMS if about(name).calls == "data" and about(name).topology == "star"}
    phased = {"rclb", "fed-go-ucb", "fed-go-ucb-ensemble"}
    assert by_data - phased - {"central-lsvi", "fedlsvi-dense", "fedlsvi-heterogeneous"} == set(PACED)


@pytest.mark.parametrize("name", PACED)
def test_two_ways_to_say_when_are_refused(name):
    kind = ALGORITHMS[name]
    with pytest.raises(ConfigError, match=rf"{name}: {kind.by_data}=3.0 and every=5 .* leave one out"):
        kind(every=5, **{kind.by_data: 3.0})
    with pytest.raises(ConfigError, match="every: must be greater than or equal to 1"):
        kind(every=0)
    again = replace(kind(every=5), ridge=3.0)
    assert (again.every, again.ridge) == (5, 3.0)


@pytest.mark.parametrize("name", PACED)
def test_the_entry_says_what_the_instance_does(name):
    default, own = ALGORITHMS[name].about, paced(name).about
    assert default.calls == "data"
    assert own.name == name
    assert own.calls == ("data" if name in FOUND else "scheduled")
    assert own.says == default.says
    if name not in FOUND:
        assert own.talks.startswith(f"by a schedule, after 4 {'episodes' if name in PLANNING else 'own turns'}")
        assert own.guarantee.startswith("none proved for a schedule")


@pytest.mark.parametrize("name", PACED)
@pytest.mark.parametrize("check", ["calls", "urgency", "two worlds"])
def test_a_schedule_keeps_promises(name, check):
    Check(check, at_home(name))()


def test_triggers_would_break_that_promise():
    """Were one that calls by data to say that it does not, it would be found out."""
    one = subject("dislinucb")
    lying = type("Lying", (type(one.algorithm),), {"about": replace(one.algorithm.about, calls="scheduled")})
    with pytest.raises(BrokenPromiseError, match="with other rewards"):
        Check("calls", replace(one, algorithm=lying(threshold=0.5)))()


@pytest.mark.parametrize("name", typical_first(sorted(set(FREE) - {"fclub-dc", "oracle-clusters"} - PLANNING)))
def test_all_talk_after_so_many_turns(name):
    trace = fb.simulate(paced(name), home(name), horizon=HORIZON, seed=1)
    when = 1 + np.flatnonzero(np.diff(trace.syncs, prepend=0))
    np.testing.assert_array_equal(when, np.arange(EVERY, HORIZON + 1, EVERY))


@pytest.mark.parametrize("name", ["dislinucb", "fedlinucb-async", "async-linucb", "fedglb-newton"])
def test_turns_are_an_agents_own(name):
    """Where one agent acts at a time, those who collect from everybody begin anew with each synchronisation; the others
    count for themselves.
    """
    trace = fb.simulate(paced(name, every=3), home(name, schedule="random"), horizon=20 * CLIENTS, seed=1)
    acted = trace.syncs[-1]
    if name in ("fedlinucb-async", "async-linucb"):
        assert 20 * CLIENTS / 3 - CLIENTS <= acted <= 20 * CLIENTS / 3
    else:
        assert 0 < acted < 20 * CLIENTS / 3 - CLIENTS


def test_always_is_after_every_turn():
    """b = 1 is a threshold of 0: both synchronise after every step, and run to the same bits."""
    environment = home("dislinucb")
    one, other = (
        fb.simulate(fb.algorithms.DisLinUCB(**given), environment, horizon=HORIZON, seed=2)
        for given in ({"every": 1}, {"threshold": 0.0})
    )
    np.testing.assert_array_equal(one.reward, other.reward)
    np.testing.assert_array_equal(one.regret, other.regret)
