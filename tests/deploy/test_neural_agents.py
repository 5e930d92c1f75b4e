"""Agents with a network, deployed: who waits for whom, what is saved, and what kill -9 leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import Deployed, assert_same, open_agent
from killed_lives import Life, assert_the_same_when_killed

import fedbandits as fb
from fedbandits.algorithms.neural import network_agents, parameters
from fedbandits.channel import Gaussian, through
from fedbandits.contract.arrays import State
from fedbandits.contract.messages import Message
from fedbandits.deploy import Agent
from fedbandits.deploy.errors import LetterError
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.settings import Settings

ALONE = np.zeros(1, dtype=np.int64)
DIM = 4
SETTINGS = Settings(algorithm=fb.algorithms.NeuralLinear(width=5, steps=2), dim=DIM, horizon=50)
AT_ONCE = 5.0
"""Seconds after which something that should not wait is taken to wait."""


def opened(path: Path, **opening: Any) -> Agent:
    return open_agent(path, SETTINGS, 0, **opening)


def arms_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(3, DIM)) / 2


def live(agent: Agent, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        agent.reward(agent.decide(arms_of(number)).id, number % 3)


def letter(kind: str, seed: int = 0) -> bytes:
    """What a server asks in the middle of a synchronisation."""
    wire, rng = SETTINGS.wire, np.random.default_rng(seed)
    network = SETTINGS.algorithm.network(SETTINGS.problem)
    q = network.features
    arrays = {
        "open": {},
        "slope": {"inner": rng.normal(size=network.parameters - q), "head": rng.normal(size=q)},
        "layer": {"inner": rng.normal(size=network.parameters - q)},
    }[kind]
    units = {} if kind == "open" else {"mean": np.array(0.7), "deviation": np.array(0.8)}
    rows = {name: np.asarray(value)[None] for name, value in (arrays | units).items()}
    return wire.encode(Message(kind, ALONE, rows), 0, "down")


class Held:
    """A computation that goes on until it is let go."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real = real
        self.begun, self.end = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any, **others: Any) -> Any:
        self.begun.set()
        assert self.end.wait(60)
        return self.real(*arguments, **others)


class Doing(threading.Thread):
    """Somebody else's call, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.call, self.found = call, None
        self.start()

    def run(self) -> None:
        self.found = self.call()

    def is_done(self) -> bool:
        self.join(AT_ONCE)
        return not self.is_alive()


@pytest.mark.parametrize(("kind", "sums"), [("slope", "gradient_sums"), ("layer", "feature_sums")])
def test_decisions_do_not_wait_for_an_answer_over_all_data(kind, sums, tmp_path, monkeypatch):
    """While an answer is being found that takes for ever, its process and another one decide and learn; and the answer
    is about what was observed when the synchronisation began.
    """
    with opened(tmp_path / "agent.db") as agent, opened(tmp_path / "agent.db") as other:
        live(agent, 6)
        agent.answer(letter("open"), "first", 0)
        expected = agent.answer(letter(kind), "rehearsed", 0)
        held = Held(getattr(network_agents, sums))
        monkeypatch.setattr(network_agents, sums, held)
        answer = Doing(lambda: agent.answer(letter(kind), "first", 1))
        assert held.begun.wait(AT_ONCE)
        try:
            for name, product in enumerate((agent, other)):
                assert Doing(lambda product=product, name=name: live(product, 2, first=10 * name)).is_done()
            assert answer.is_alive()
        finally:
            held.end.set()
        assert answer.is_done()
        assert answer.found == expected
        assert agent.status().letters == 3
        assert agent.status().rewards == 10


def test_an_answer_is_found_by_one_process_alone(tmp_path, monkeypatch):
    """Neither another process that decides next nor one that opens the file again goes over the data for it."""
    path = tmp_path / "agent.db"
    with opened(path) as agent, opened(path) as other:
        live(agent, 6)
        agent.answer(letter("open"), "first", 0)
        for turn in range(1, 4):
            agent.answer(letter("slope", turn), "first", turn)
        agent.answer(letter("layer"), "first", 4)

        def refuse(*arguments: Any, **others: Any) -> None:
            raise AssertionError("done again")

        for sums in ("gradient_sums", "feature_sums"):
            monkeypatch.setattr(network_agents, sums, refuse)
        live(other, 1, first=20)
        with opened(path) as again:
            live(again, 1, first=30)
            assert again.status().letters == 5
            assert again.status().rewards == 8
        assert agent.answer(letter("slope", 2), "first", 2) is not None, "and a letter that comes again"
        live(agent, 1, first=40)
        for name, array in agent.state().items():
            np.testing.assert_array_equal(other.state()[name], array, err_msg=name)


def test_an_answer_that_was_overtaken_by_another_letter_is_found_anew(tmp_path, monkeypatch):
    """While it is found another synchronisation begins, over more data: it is about those."""
    with opened(tmp_path / "agent.db") as agent, opened(tmp_path / "agent.db") as other:
        live(agent, 6)
        agent.answer(letter("open"), "first", 0)
        real = network_agents.gradient_sums
        held = Held(real)
        monkeypatch.setattr(network_agents, "gradient_sums", held)
        answer = Doing(lambda: agent.answer(letter("slope"), "first", 1))
        assert held.begun.wait(AT_ONCE)
        live(other, 3, first=10)
        other.answer(letter("open"), "second", 0)
        held.end.set()
        assert answer.is_done()
        monkeypatch.setattr(network_agents, "gradient_sums", real)
        assert answer.found == other.answer(letter("slope"), "second", 1)


def test_what_cannot_be_computed_is_refused_and_changes_nothing(tmp_path, monkeypatch):
    def fail(*arguments: Any, **others: Any) -> None:
        raise FloatingPointError("too large")

    with opened(tmp_path / "agent.db") as agent:
        live(agent, 4)
        agent.answer(letter("open"), "first", 0)
        before = agent.state()
        monkeypatch.setattr(network_agents, "gradient_sums", fail)
        with pytest.raises(LetterError, match="too large"):
            agent.answer(letter("slope"), "first", 1)
        assert agent.status().letters == 1
        for name, array in agent.state().items():
            np.testing.assert_array_equal(before[name], array)


@pytest.mark.parametrize("training", ["pooled", "averaged"])
def test_pondering_comes_to_the_bits_of_an_answer_whatever_is_learned_meanwhile(training):
    algorithm = fb.algorithms.NeuralLinear(width=5, steps=2, training=training)
    world = fb.environments.Cosine(clients=3, dim=DIM, arms=5).world(40, np.random.SeedSequence(0))
    agents = algorithm.agents(world.problem, 3, fb.contract.streams.Streams(np.random.SeedSequence(1), 3))

    def learn(first: int, turns: int) -> None:
        for step in range(first, first + turns):
            turn = world.turn(step)
            picks = agents.choose(turn.who, turn.arms)
            agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)

    learn(0, 9)
    everybody = np.arange(3)
    agents.answer(Message("open", everybody))
    conversation = algorithm.server(world.problem, 3, fb.contract.streams.Streams(np.random.SeedSequence(2), 1))
    talk = conversation.converse(everybody)
    request = next(talk)
    asked = 0
    try:
        while True:
            work = agents.ponder(request)
            before = agents.state()
            reply = agents.answer(request)
            if work is not None:
                asked += 1
                assert_same([agents.state()], [before])
                learn(9 + 3 * asked, 3)
                again = work()
                assert {name: array.tobytes() for name, array in again.arrays.items()} == {
                    name: array.tobytes() for name, array in reply.arrays.items()
                }
            request = talk.send(reply if reply is not None else Message(request.kind, everybody))
    except StopIteration:
        pass
    assert asked >= 3


@pytest.mark.parametrize("name", ["neural-ucb", "fn-ucb"])
def test_whoever_trains_while_others_wait_goes_over_so_many_observations_at_most(name, tmp_path, monkeypatch):
    """`steps` times `until`, in whatever call: that is what a decision may have to wait for."""
    went_over: list[int] = []
    real = parameters.descend

    def counted(network: Any, theta: Any, data: Any, who: Any, end: Any, *, steps: int, **others: Any) -> Any:
        went_over.append(steps * int(end.sum()))
        return real(network, theta, data, who, end, steps=steps, **others)

    monkeypatch.setattr(parameters, "descend", counted)
    algorithm = talkative(name, width=4, steps=3, until=8, matrix="diagonal")
    federation = Deployed(tmp_path, algorithm, home("fn-ucb", clients=2), 30) if name == "fn-ucb" else None
    agents = federation.agents if federation else [Agent.open(tmp_path / "a.db", algorithm, DIM, warm=False)]
    for step in range(14):
        if federation is None:
            before = len(went_over)
            live(agents[0], 1, first=step)
            assert len(went_over) <= before + 1
        else:
            federation.live(step)
            federation.coordinator.step()
    assert max(went_over) == 3 * 8
    for agent in agents:
        agent.close()


# what is saved


@pytest.mark.parametrize("name", ["neural-linear", "neural-ucb", "fn-ucb"])
def test_snapshots_are_as_large_as_the_data_and_no_larger(name, tmp_path):
    """8 (d + 1) C bytes and what does not depend on C, the horizon, or twice that where it was outlived, and so on."""
    chosen: dict[str, Any] = {"matrix": "diagonal"} if name == "fn-ucb" else {}
    algorithm = fb.algorithms.ALGORITHMS[name](width=4, steps=1, **chosen)

    def size(horizon: int, turns: int) -> int:
        path = tmp_path / f"{horizon}-{turns}.db"
        with Agent.open(path, algorithm, DIM, horizon=horizon, durable=False, warm=False) as agent:
            live(agent, turns)
        with Agent.open(path, durable=False, warm=False) as agent:
            snapshot = agent._journal.snapshot()
            assert snapshot is not None
            assert agent._journal._db.execute("SELECT count(*) FROM snapshots").fetchone() == (1,)
            return len(snapshot.state)

    small = size(100, 5)
    assert size(100, 60) == small
    assert size(900, 5) == small + 8 * (DIM + 1) * 800
    assert size(50, 60) == small


# kill -9


@pytest.mark.parametrize("name", ["neural-linear", "neural-ucb", "fn-ucb"])
def test_killed_again_and_again_an_agent_with_a_network_is_what_it_would_have_been(name, tmp_path):
    """The same life is led in one go and by processes of which each is killed in the middle: the same state to the last
    bit, and every answer that was given.
    """
    chosen: dict[str, Any] = {"matrix": "diagonal"} if name == "fn-ucb" else {}
    state, life, settings = _reference(tmp_path / "whole", name, **chosen)
    assert_the_same_when_killed(tmp_path / "agent.db", settings, life, state)


def _reference(where: Path, name: str, **chosen: Any) -> tuple[State, list[tuple[Any, ...]], Settings]:
    where.mkdir()
    if not fb.algorithms.ALGORITHMS[name].about.says:
        settings = Settings(algorithm=talkative(name, width=4, steps=3, **chosen), dim=DIM, horizon=30)
        with open_agent(where / "agent.db", settings, 0) as agent:
            life = Life(agent)
            live(agent, 25)
            return agent.state(), life.done, settings
    deployed = Deployed(where, talkative(name, **chosen), home(name, clients=2, dim=DIM), 24)
    life = Life(deployed.agents[0])
    for step in range(16):
        deployed.live(step)
        deployed.coordinator.step()
    assert sum(what == "answer" for what, *_ in life.done) > 8
    return deployed.agents[0].state(), life.done, deployed.settings


# an agent that was lost


def test_a_new_agent_takes_the_place_of_a_lost_one_once_it_is_released(tmp_path):
    """Its totals begin anew: without a word of the operator it is taken for one that takes back what it has said."""
    federation = Deployed(tmp_path, talkative("neural-linear"), home("neural-linear", clients=3), 40)

    def go(first: int, last: int) -> None:
        for step in range(first, last):
            federation.live(step)
            federation.coordinator.step()

    go(0, 12)
    federation.agents[1].close()
    federation.agents[1] = open_agent(tmp_path / "new.db", federation.settings, 1)
    federation.post.desks[1] = Desk(federation.agents[1])
    go(12, 20)
    assert {(one.identity, one.why.partition(" is a total")[0]) for one in federation.book.rejections()} == {
        (1, "'count'")
    }
    refused = len(federation.book.rejections())
    assert federation.agents[1].state()["pooled"] == [0], "and it is left out, until it has seen as much"
    federation.book.release(1)
    go(20, 30)
    assert len(federation.book.rejections()) == refused
    states = federation.states()
    assert states[1]["pooled"] == states[0]["pooled"] > 0
    assert states[1]["inside"] > 0
    np.testing.assert_array_equal(states[1]["mean"], states[0]["mean"])


# with noise


def test_a_private_federation_of_networks_keeps_its_budget(tmp_path):
    """Nothing that honest agents say is refused, and everybody gets a network; one that is killed in between repeats
    its noise.
    """
    algorithm = through(
        fb.algorithms.NeuralLinear(width=4, steps=2, cut=2.0),
        [Gaussian(epsilon=3.0, rewards=2.0, uploads=3, first=4, last=1.0, queries=6)],
    )
    federation = Deployed(tmp_path, algorithm, home("neural-linear", clients=3), 24)
    for step in range(24):
        federation.live(step)
        federation.coordinator.step()
        if step == 10:  # without being closed
            again = federation.open(1)
            assert again.status().letters == federation.agents[1].status().letters > 0
            again.close()
    assert federation.book.rejections() == []
    for agent in federation.agents:
        status = agent.status()
        assert status.budget is not None
        assert status.budget.spent == status.budget.strictly == pytest.approx(3.0)
        assert agent.state()["acting.pooled"] == 3 * 24, "the last update is at the end"
