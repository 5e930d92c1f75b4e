"""Several processes of one host use one agent: all of them hold the state that the journal leads to."""

from __future__ import annotations

import math
import multiprocessing
import os
import sqlite3
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.arrays import State
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent, ClosedError, ConflictError
from fedbandits.deploy.settings import stored

ALONE = np.zeros(1, dtype=np.int64)
DIM = 4
EXPLORING = fb.algorithms.HetoFedBandit(explore=40, threshold=5.0)
"""Draws at random first and decides by optimism afterwards, so that the order of all calls matters."""
PROCESSES, ROUNDS = 3, 40


def arms_of(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.normal(size=(rng.integers(1, 6), DIM)) / math.sqrt(DIM)


def same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


def share(agent: Agent, number: int) -> bytes:
    rng = np.random.default_rng(number)
    arrays = {"gram": 1000 * np.eye(DIM)[None], "moment": rng.normal(size=(1, DIM)), "alarm": np.array([2.0])}
    return agent.settings.wire.encode(Message("share", ALONE, arrays), 0, "down")


def work(number: int, parent: Connection) -> None:
    """Live one life after the other, as told."""
    while (life := parent.recv()) is not None:
        live(*life, number, parent)


def live(path: Path, every: int, number: int, parent: Connection) -> None:
    """Decide, reward late and out of order, answer letters that others answer too; then tell what one knows."""
    agent = Agent.open(path, EXPLORING, DIM, durable=False, snapshot_every=every, timeout=60.0)
    parent.send("ready")
    parent.recv()
    unpaid: list[str] = []
    counted = 0
    for i in range(ROUNDS):
        unpaid.append(agent.decide(arms_of(1000 * number + i)).id)
        if i % 3 == 2:
            for name in reversed(unpaid):
                counted += agent.reward(name, i / ROUNDS)
            unpaid.clear()
        if i % 10 == 9:
            agent.answer(share(agent, i), "conversation", i)
    parent.send((counted, len(unpaid)))
    parent.recv()  # until everybody has done
    parent.send(agent.state())
    agent.close()
    parent.send("closed")


def replayed(path: Path) -> State:
    """What a bare population knows that does what the tables say, read without the help of the journal's code."""
    database = sqlite3.connect(path)
    population = stored(database.execute("SELECT text FROM settings").fetchone()[0], {}).population()
    decisions = {
        entry: (np.frombuffer(arms).reshape(1, -1, DIM).copy(), np.array([pick]))
        for entry, pick, arms in database.execute(
            "SELECT entry, pick, arms FROM decisions JOIN shown ON decision = entry"
        )
    }
    rewards = {entry: row for entry, *row in database.execute("SELECT entry, decision, value FROM rewards")}
    letters = dict(database.execute("SELECT entry, request FROM letters"))
    database.close()
    entries = sorted([*decisions, *rewards, *letters])
    assert entries == list(range(1, len(entries) + 1))
    for entry in entries:
        if entry in decisions:
            arms, picks = decisions[entry]
            assert population.choose(ALONE, arms) == picks
        elif entry in rewards:
            decision, value = rewards[entry]
            population.learn(ALONE, *decisions[decision], np.array([value]))
        else:
            kind, arrays = Wire.decode(letters[entry])
            population.answer(Message(kind, ALONE, {name: array[None] for name, array in arrays.items()}))
    return population.state()


@pytest.fixture(scope="module")
def pipes():
    """To processes that do not share memory."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(PROCESSES):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(number, theirs)))
        processes[-1].start()
        theirs.close()
        pipes.append(mine)
    yield pipes
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join(timeout=30)
        assert process.exitcode == 0


@pytest.mark.slow
@pytest.mark.parametrize("every", [10_000, 7])
def test_processes_share_an_agent(tmp_path, pipes, every):
    """With a snapshot now and then (7), by whoever it falls to; and without, where the whole journal can be read."""
    path = tmp_path / "agent.db"
    for pipe in pipes:
        pipe.send((path, every))
    # they have made the file, or found it made, at the same time
    assert [pipe.recv() for pipe in pipes] == ["ready"] * PROCESSES
    for pipe in pipes:
        pipe.send("go")
    told = [pipe.recv() for pipe in pipes]
    with Agent.open(path, durable=False) as observer:
        if every > PROCESSES * ROUNDS * 3:
            assert same(observer.state(), replayed(path))
        for pipe in pipes:
            pipe.send("all done")
        states = [pipe.recv() for pipe in pipes]
        assert [pipe.recv() for pipe in pipes] == ["closed"] * PROCESSES
        assert all(same(state, observer.state()) for state in states)
        status = observer.status()
    assert status.decisions == PROCESSES * ROUNDS
    assert status.rewards == sum(counted for counted, _ in told)
    assert status.awaiting == sum(unpaid for _, unpaid in told)
    assert status.letters == ROUNDS // 10
    with Agent.open(path, durable=False) as again:
        assert same(again.state(), states[0])


def test_two_openings_see_each_other(tmp_path):
    """Every way of looking and of changing first catches up, also past a snapshot that dropped what came before."""
    path = tmp_path / "agent.db"
    one = Agent.open(path, EXPLORING, DIM, durable=False, snapshot_every=5)
    other = Agent.open(path, durable=False, snapshot_every=5)
    for number in range(30):
        decision = one.decide(arms_of(number))
        assert other.status().decisions == number + 1
        assert other.reward(decision.id, 0.5)
        assert one.reward(decision.id, 0.5) is False
        assert same(one.state(), other.state())
    text = share(one, 0)
    assert one.answer(text, "c", 0) is None
    assert other.answer(text, "c", 0) is None
    assert other.synchronised_at == one.synchronised_at is not None
    assert other.calling() == one.calling()
    with pytest.raises(ConflictError):
        other.answer(share(one, 1), "c", 0)
    sleeper = Agent.open(path, durable=False)
    for number in range(30):
        one.reward(one.decide(arms_of(number)).id, 0.25)
    assert one.forget(math.ceil(one.synchronised_at.timestamp()) + 1000) == 60
    assert same(sleeper.state(), one.state())
    assert sleeper.decide(arms_of(1)).id.startswith(f"{30 + 30 + 1 + 30 + 30 + 1}-")
    for agent in (one, other, sleeper):
        agent.close()


@pytest.mark.parametrize("failing", ["version", "newest_snapshot", "snapshot", "events"])
def test_catching_up_that_is_interrupted_is_made_up_for(tmp_path, monkeypatch, failing):
    path = tmp_path / "agent.db"
    one = Agent.open(path, EXPLORING, DIM, durable=False, snapshot_every=5)
    other = Agent.open(path, durable=False)
    for number in range(20):
        one.reward(one.decide(arms_of(number)).id, 0.5)

        def fail(*arguments: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(type(other._journal), failing, fail)
            other.decide(arms_of(number))
        other.decide(arms_of(number + 50))
        assert same(one.state(), other.state())
    one.close()
    other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_to_open_its_own(tmp_path):
    agent = Agent.open(tmp_path / "agent.db", EXPLORING, DIM, durable=False)
    agent.decide(arms_of(0))
    read, write = os.pipe()
    with agent._transactions._lock:  # held at the moment of the fork, as by another thread
        child = os.fork()
        if child == 0:
            outcome = b"no error"
            try:
                agent.decide(arms_of(1))
            except ClosedError as error:
                outcome = str(error).encode()
            agent.close()
            os.write(write, outcome)
            os._exit(0)
    os.waitpid(child, 0)
    assert b"open it anew" in os.read(read, 1000)
    assert agent.decide(arms_of(1)).index >= 0
    assert agent.status().decisions == 2
    agent.close()
