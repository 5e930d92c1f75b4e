"""What a global update says, what it costs, and that no raw observation is among it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.contract.messages import Message
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError
from fedbandits.models.objectives import ASK_GRADIENT
from fedbandits.models.sharing import COLLECT
from fedbandits.testing.recording import recorded

N, D = 6, 5
FAMILY = sorted(name for name, kind in ALGORITHMS.items() if kind.about.family == "generalized")
UP, DOWN = DIRECTIONS.index("up"), DIRECTIONS.index("down")
MESSAGES, SCALARS = UNITS.index("messages"), UNITS.index("scalars")


def environment(schedule="all"):
    return fb.environments.Logistic(clients=N, dim=D, arms=7, schedule=schedule)


def updates(name, horizon=60, schedule="all", **parameters):
    """For every global update: rounds of optimisation, and what the ledger charged, (3, 4)."""
    before = np.zeros((3, 4), dtype=np.int64)
    for event in recorded(ALGORITHMS[name](**parameters), environment(schedule), horizon):
        charged = event.side.ledger.counts - before
        before = event.side.ledger.counts.copy()
        if event.crossed:
            asked = [message.kind for way, message in event.crossed if way == "down"]
            yield sum(kind in ("gradient", "curvature") for kind in asked), charged
        else:
            assert not charged.any()


def test_the_family_is_complete():
    assert FAMILY == [
        "fedglb-newton",
        "fedglb-ucb",
        "fedglb-ucb-1",
        "fedglb-ucb-2",
        "fedglb-ucb-3",
        "n-ons-glm",
        "n-ucb-glm",
        "one-ucb-glm",
    ]


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("fedglb-ucb", {"threshold": 1.0}), ("fedglb-ucb-1", {"updates": 30}), ("fedglb-ucb-2", {"updates": 30})],
)
def test_an_update_by_gradients(name, parameters, schedule):
    """2n (J + 1) messages; n (d^2 + 1) + nJd scalars up, nJd + n (d^2 + d + 1) down."""
    seen = list(updates(name, 60 if schedule == "all" else 240, schedule, **parameters))
    assert len(seen) >= 5
    assert len({rounds for rounds, _ in seen}) > 1
    for rounds, charged in seen:
        assert charged[:, MESSAGES].sum() == 2 * N * (rounds + 1)
        assert charged[UP, SCALARS] == N * (D**2 + 1) + N * rounds * D
        assert charged[DOWN, SCALARS] == N * rounds * D + N * (D**2 + D + 1)


@pytest.mark.parametrize("name", ["fedglb-newton", "one-ucb-glm"])
def test_an_update_by_curvatures(name):
    seen = list(updates(name))
    assert len(seen) >= 5
    for rounds, charged in seen:
        assert charged[:, MESSAGES].sum() == 2 * N * (rounds + 1)
        assert charged[UP, SCALARS] == N * (D**2 + 1) + N * rounds * (D**2 + D + 1)
        assert charged[DOWN, SCALARS] == N * rounds * D + N * (D**2 + D + 1)


def test_an_update_of_variant_3():
    seen = list(updates("fedglb-ucb-3", updates=12))
    assert len(seen) == 12
    for rounds, charged in seen:
        assert rounds == 0
        np.testing.assert_array_equal(charged[[UP, DOWN], MESSAGES], [N, N])
        np.testing.assert_array_equal(charged[[UP, DOWN], SCALARS], [N * (D**2 + D), N * (2 * D**2 + 2 * D + 2)])


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton"])
def test_without_a_threshold_every_step_synchronises(name, schedule):
    trace = fb.simulate(ALGORITHMS[name](threshold=0), environment(schedule), 40)
    np.testing.assert_array_equal(trace.syncs, np.arange(1, 41))


@pytest.mark.parametrize("name", ["fedglb-ucb", "fedglb-newton"])
def test_with_an_infinite_one_none_does(name):
    trace = fb.simulate(ALGORITHMS[name](threshold=math.inf), environment(), 40)
    assert not trace.counts.any()


@pytest.mark.parametrize("name", ["fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3"])
def test_a_schedule_is_kept(name):
    trace = fb.simulate(ALGORITHMS[name](updates=8), environment(), 40)
    np.testing.assert_array_equal(np.flatnonzero(np.diff(trace.syncs, prepend=0)) + 1, np.arange(5, 41, 5))


@pytest.mark.parametrize("updates", [7, 13, 29])
@pytest.mark.parametrize("name", ["fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3"])
def test_there_are_as_many_updates_as_asked_for(name, updates):
    trace = fb.simulate(ALGORITHMS[name](updates=updates), environment(), 40)
    assert trace.syncs[-1] == updates


def test_one_agent_at_a_time_makes_no_more_of_them():
    trace = fb.simulate(ALGORITHMS["fedglb-ucb-3"](updates=50), environment(schedule="random"), 200)
    assert 30 <= trace.syncs[-1] <= 50


@pytest.mark.parametrize("name", FAMILY)
def test_nothing_raw_is_declared(name):
    assert not any(field.raw for utterance in ALGORITHMS[name].about.says for field in utterance.fields)


@pytest.mark.parametrize("name", FAMILY)
def test_servers_hold_nothing_as_long_as_the_data(name):
    """Whatever the number of observations, a server keeps d^2 + O(d) numbers of each kind."""
    sizes = []
    for horizon in (10, 60):
        run = fb.Simulation(ALGORITHMS[name](), environment(), horizon)
        run.run()
        sizes.append({} if run.server is None else {key: array.shape for key, array in run.server.state().items()})
    assert sizes[0] == sizes[1]


def test_a_global_update_waits_for_everybody_and_loses_nothing():
    """While an agent cannot be reached no estimate changes hands; afterwards the update rests on everything."""
    env = fb.environments.Logistic(clients=N, dim=D, arms=7, stragglers=0.5, presence=0.5)
    algorithm = ALGORITHMS["fedglb-newton"](threshold=0.3)
    waited = finished = 0
    gram, count = np.zeros((D, D)), 0
    for event in recorded(algorithm, env, 200):
        x = event.arms[np.arange(len(event.who)), event.picks]
        gram, count = gram + x.T @ x, count + len(x)
        kinds = [message.kind for way, message in event.crossed if way == "down"]
        if "model" in kinds:
            finished += 1
            np.testing.assert_allclose(event.side.server.gram[0], gram, rtol=1e-10, atol=1e-12)
            assert event.side.server.count[0] == count
        elif kinds:
            waited += 1
    assert waited > 5
    assert finished > 5


def test_questions_are_pondered_on_what_was_given_when_they_came():
    """Deployed agents go on deciding meanwhile, and what they then observe is no part of the answer."""
    rng = np.random.default_rng(0)
    problem = fb.environments.Logistic(clients=1, dim=3, arms=4).world(50, np.random.SeedSequence(0)).problem
    agents = fb.algorithms.FedGLBUCB().agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
    alone = np.zeros(1, dtype=np.int64)

    def observe() -> None:
        agents.learn(alone, rng.standard_normal((1, 4, 3)) / 2, np.array([1]), np.array([1.0]))

    for _ in range(5):
        observe()
    agents.answer(Message(COLLECT.kind, alone))
    ask = Message(ASK_GRADIENT.kind, alone, {"theta": np.full((1, 3), 0.1)})
    said = agents.answer(ask)
    work = agents.ponder(ask)
    observe()
    agents.answer(Message(COLLECT.kind, alone))
    np.testing.assert_array_equal(work().arrays["gradient"], said.arrays["gradient"])
    assert not np.array_equal(agents.answer(ask).arrays["gradient"], said.arrays["gradient"])
    assert agents.ponder(Message(COLLECT.kind, alone)) is None
    assert agents.ponder(Message("gossip", alone)) is None
    with pytest.raises(WireError, match="do not understand 'gossip'"):
        agents.answer(Message("gossip", alone))
