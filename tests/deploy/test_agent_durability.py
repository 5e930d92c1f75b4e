"""What the file of an agent survives: kill -9 at any point, a full disk, a locked file, damaged bytes.

Run as a program, this module is the nursery of the processes that get killed: it imports and compiles once, and forks
a child for every line it reads.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.arrays import State
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Wire
from fedbandits.deploy import (
    Agent,
    AgentError,
    CorruptError,
    DiskFullError,
    LockedError,
    ReplayError,
    SettingsError,
    StorageError,
)
from fedbandits.deploy.embedded.rehearsal import rehearse
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage import write_ahead
from fedbandits.deploy.storage.digests import digest

ALONE = np.zeros(1, dtype=np.int64)
DIM = 4
SETTINGS = Settings(algorithm=fb.algorithms.HetoFedBandit(explore=25, threshold=5.0), dim=DIM)
"""Agents that explore at random, decide by optimism, and talk: everything that replay has to get right."""


def opened(path: Path, **options: Any) -> Agent:
    return Agent.open(path, SETTINGS.algorithm, SETTINGS.dim, **({"durable": False, "warm": False} | options))


def arms_of(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.normal(size=(rng.integers(1, 6), DIM)) / math.sqrt(DIM)


def letter_of(number: int) -> bytes:
    """A signal, or a cluster's share: positive definite whatever is subtracted from it."""
    if number % 2 == 0:
        return SETTINGS.wire.encode(Message("collect", ALONE), 0, "down")
    rng = np.random.default_rng(number)
    share = {"gram": 1000 * np.eye(DIM)[None], "moment": rng.normal(size=(1, DIM)), "alarm": np.array([2.0])}
    return SETTINGS.wire.encode(Message("share", ALONE, share), 0, "down")


def same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


class Twin:
    """A bare population that does the same, and is never interrupted."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.population: Population = settings.population()
        self.wire = settings.wire
        self.shown: list[tuple[np.ndarray, np.ndarray]] = []

    def decide(self, arms: np.ndarray) -> int:
        picks = self.population.choose(ALONE, arms[None])
        self.shown.append((arms[None], picks))
        return int(picks[0])

    def reward(self, number: int, value: float) -> None:
        self.population.learn(ALONE, *self.shown[number], np.array([value]))

    def answer(self, text: bytes) -> bytes | None:
        kind, arrays = Wire.decode(text)
        reply = self.population.answer(Message(kind, ALONE, {name: value[None] for name, value in arrays.items()}))
        return None if reply is None else self.wire.encode(reply, 0, "up")


# kill -9


def nursery(settings: Settings = SETTINGS, opened: Callable[..., Agent] = opened) -> None:
    """Fork a child for every line read: where its agent lives, how to open it, and where to take orders from."""
    rehearse(settings)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            child(opened, **json.loads(line))
            os._exit(0)


def child(opened: Callable[..., Agent], path: str, options: dict[str, Any], address: str) -> None:
    with Client(address) as parent:
        parent.send(os.getpid())
        agent = opened(Path(path), **options)
        status = agent.status()
        parent.send((status.decisions, status.rewards, status.letters))
        while True:
            last_statements, name, *arguments = parent.recv()
            if last_statements is not None:
                agent._journal._db.set_trace_callback(Fuse(last_statements))
            reply = getattr(agent, name)(*arguments)
            if last_statements is not None:
                os.kill(os.getpid(), signal.SIGKILL)
            parent.send(reply)


class Fuse:
    """Kills this process when so many more SQL statements have been started."""

    def __init__(self, statements: int) -> None:
        self.left = statements

    def __call__(self, statement: str) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class Ward:
    """Orders to one agent whose process is killed now and then, and a twin that is told what was acknowledged."""

    program: ClassVar[str] = __file__
    """The nursery."""

    def __init__(self, path: Path, options: dict[str, Any], seed: int) -> None:
        self.path = path
        self.options = options
        self.random = random.Random(seed)
        self.twin = self.new_twin()
        self.ids: list[str | None] = []
        """Of every decision; None where the process died before it could say the id."""
        self.values: dict[int, float] = {}
        self.letters: list[tuple[bytes, bytes | None]] = []
        self.orders = 0
        self.committed_unheard = 0
        self.listener = Listener(family="AF_UNIX")
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.nursery = subprocess.Popen(
            [sys.executable, self.program], stdin=subprocess.PIPE, text=True, env=environment
        )

    def new_twin(self) -> Any:
        return Twin()

    def close(self) -> None:
        self.listener.close()
        assert self.nursery.stdin is not None
        self.nursery.stdin.close()
        self.nursery.wait(timeout=20)

    def bear(self) -> tuple[int, Connection]:
        assert self.nursery.stdin is not None
        order = {"path": str(self.path), "options": self.options, "address": self.listener.address}
        self.nursery.stdin.write(json.dumps(order) + "\n")
        self.nursery.stdin.flush()
        connection = self.listener.accept()
        return connection.recv(), connection

    def live(self, orders: int) -> None:
        """A process that carries out some orders and is killed while it does the next one, or while it opens."""
        pid, connection = self.bear()
        if self.random.random() < 0.15:
            self.kill(pid, connection, within=0.02)
            return
        counts = connection.recv()
        assert counts == (len(self.ids), len(self.values), len(self.letters)), "what was acknowledged is there, once"
        for _ in range(orders):
            order, acknowledged = self.order()
            connection.send((None, *order))
            acknowledged(connection.recv())
        order, acknowledged = self.order()
        if self.random.random() < 0.5:  # at a moment
            connection.send((None, *order))
            reply = self.kill(pid, connection, within=0.0015)
        else:  # before a statement, or after the last one and before it is acknowledged
            connection.send((self.random.randrange(14), *order))
            reply = self.last_words(connection)
        if reply is not None:
            acknowledged(reply[0])
        else:
            self.resolve(order, acknowledged)

    def kill(self, pid: int, connection: Connection, within: float) -> tuple[Any] | None:
        """Kill after a random time; what the process had still said to the last order."""
        end = time.perf_counter() + self.random.uniform(0, within)
        while time.perf_counter() < end:
            pass
        os.kill(pid, signal.SIGKILL)
        return self.last_words(connection)

    def last_words(self, connection: Connection) -> tuple[Any] | None:
        try:
            return (connection.recv(),)
        except (EOFError, ConnectionResetError):
            return None
        finally:
            connection.close()

    def resolve(self, order: tuple[Any, ...], acknowledged: Callable[[Any], None]) -> None:
        """Nobody heard whether the last order was carried out: see, as its owner would, by asking again."""
        pid, connection = self.bear()
        decisions, rewards, letters = connection.recv()
        carried_out = (decisions, rewards, letters) != (len(self.ids), len(self.values), len(self.letters))
        self.committed_unheard += carried_out
        if order[0] == "decide":
            assert decisions in (len(self.ids), len(self.ids) + 1)
            assert (rewards, letters) == (len(self.values), len(self.letters))
            if carried_out:
                self.ids.append(None)
                self.twin.decide(*order[1:])
        else:
            assert decisions == len(self.ids)
            connection.send((None, *order))
            reply = connection.recv()
            if order[0] == "reward" and carried_out:
                assert reply is False
                reply = True
            acknowledged(reply)
        self.kill(pid, connection, within=0.0)

    def order(self) -> tuple[tuple[Any, ...], Callable[[Any], None]]:
        """The next order, and what its acknowledgement means."""
        self.orders += 1
        unpaid = [i for i, name in enumerate(self.ids) if name is not None and i not in self.values]
        kind = self.random.random()
        if kind < 0.45 and unpaid:
            return self.reward(self.random.choice(unpaid))
        if kind < 0.5 and self.values:
            return self.reward(self.random.choice(list(self.values)))
        if kind < 0.6:
            return self.answer()
        arms = arms_of(self.orders)

        def decided(decision: Any) -> None:
            assert decision.index == self.twin.decide(arms)
            self.ids.append(decision.id)

        return ("decide", arms), decided

    def reward(self, number: int) -> tuple[tuple[Any, ...], Callable[[Any], None]]:
        known = number in self.values
        value = self.values.get(number, self.random.random())

        def counted(now: Any) -> None:
            assert now is not known
            if not known:
                self.values[number] = value
                self.twin.reward(number, value)

        return ("reward", self.ids[number], value), counted

    def answer(self) -> tuple[tuple[Any, ...], Callable[[Any], None]]:
        repeated = bool(self.letters) and self.random.random() < 0.3
        turn = self.random.randrange(len(self.letters)) if repeated else len(self.letters)
        text = letter_of(turn)

        def answered(reply: Any) -> None:
            if repeated:
                assert reply == self.letters[turn][1]
            else:
                assert reply == self.twin.answer(text)
                self.letters.append((text, reply))

        return ("answer", text, "conversation", turn), answered


@contextmanager
def ward(path: Path, seed: int = 0, **options: Any):
    made = Ward(path, {"durable": False, "snapshot_every": 5} | options, seed)
    try:
        yield made
    finally:
        made.close()


def survives(path: Path, kills: int, **options: Any) -> None:
    with ward(path, **options) as patient:
        for _ in range(kills):
            patient.live(patient.random.randrange(12))
        with opened(path) as agent:
            assert same(agent.state(), patient.twin.population.state())
            status = agent.status()
            assert (status.decisions, status.rewards) == (len(patient.ids), len(patient.values))
            assert status.awaiting == len(patient.ids) - len(patient.values)
            for number, (text, reply) in enumerate(patient.letters):
                assert agent.answer(text, "conversation", number) == reply
        # the test hits both sides of the moment in which a call becomes durable
        assert 0 < patient.committed_unheard < kills


def test_killed_at_random_points_nothing_is_lost_or_counted_twice(tmp_path):
    survives(tmp_path / "agent.db", kills=50)


@pytest.mark.slow
def test_killed_while_waiting_for_the_disk(tmp_path):
    survives(tmp_path / "agent.db", kills=20, durable=True, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_killed_many_times(tmp_path, seed):
    survives(tmp_path / "agent.db", kills=400, durable=seed % 2 == 0, seed=seed)


# a full disk


def check_full_disk(path: Path, fill_disk: Callable[[Agent], None], make_room: Callable[[Agent], None]) -> set[str]:
    """Go on calling while there is no room; a twin is told of the calls that were carried out. Which were not?"""
    agent, twin = opened(path, snapshot_every=40), Twin()
    ids: list[str] = []
    refused: list[str] = []
    unpaid = turn = 0

    def decide() -> None:
        ids.append(agent.decide(arms_of(len(ids))).id)
        twin.decide(arms_of(len(ids) - 1))

    def reward() -> None:
        nonlocal unpaid
        if unpaid == len(ids):
            return
        assert agent.reward(ids[unpaid], 0.5)
        twin.reward(unpaid, 0.5)
        unpaid += 1

    def answer() -> None:
        nonlocal turn
        reply = agent.answer(letter_of(1), "c", turn)
        assert reply == twin.answer(letter_of(1))
        turn += 1

    for _ in range(10):
        decide()
    fill_disk(agent)
    for _ in range(400):
        for call in (decide, reward, answer):
            try:
                call()
            except DiskFullError as error:
                refused.append(call.__name__)
                assert "no room left" in str(error)  # noqa: PT017
        if len(refused) > 100:
            break
    assert same(agent.state(), twin.population.state())
    make_room(agent)
    for call in (decide, reward, answer):
        call()
    assert same(agent.state(), twin.population.state())
    agent.close()
    with opened(path) as again:
        assert same(again.state(), twin.population.state())
        assert again.status().decisions == len(ids)
    return set(refused)


def test_a_file_that_may_not_grow(tmp_path):
    def limit(agent: Agent, more: int) -> None:
        database = agent._journal._db
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages + more}")

    path = tmp_path / "agent.db"
    refused = check_full_disk(path, lambda agent: limit(agent, 2), lambda agent: limit(agent, 10_000))
    assert refused >= {"decide", "answer"}


@pytest.mark.parametrize("log_bytes", [write_ahead.LOG_BYTES, 2**15])
def test_a_disk_that_is_full(tmp_path, monkeypatch, log_bytes):
    """Also where the log has to be copied into the file all the time, for which there is no room either."""
    monkeypatch.setattr(write_ahead, "LOG_BYTES", log_bytes)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a small disk")
    ballast = disk / "ballast"

    def fill_disk(agent: Agent) -> None:
        with open(ballast, "wb", buffering=0) as out:
            try:
                while out.write(bytes(4096)):
                    pass
            except OSError:
                pass

    try:
        refused = check_full_disk(disk / "agent.db", fill_disk, lambda agent: ballast.unlink())
        assert refused == {"decide", "reward", "answer"}
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


# a locked file


def test_a_locked_file(tmp_path):
    path = tmp_path / "agent.db"
    agent, twin = opened(path, timeout=0.05), Twin()
    first = agent.decide(arms_of(0))
    twin.decide(arms_of(0))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call in (
        lambda: agent.decide(arms_of(1)),
        lambda: agent.reward(first.id, 1.0),
        lambda: agent.answer(letter_of(0), "c", 0),
        lambda: opened(path, timeout=0.05),
    ):
        with pytest.raises(LockedError, match=r"agent\.db: another process keeps it locked"):
            call()
    assert agent.status().decisions == 1, "looking needs no lock"
    other.execute("ROLLBACK")
    other.close()
    assert agent.reward(first.id, 1.0)
    twin.reward(0, 1.0)
    assert same(agent.state(), twin.population.state())


# files that are not what they should be


def test_files_of_others_are_left_alone(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("These are not the bytes of a database, but there are more than enough of them.\n" * 20)
    with pytest.raises(CorruptError, match="no database"):
        opened(text)
    theirs = tmp_path / "theirs.db"
    with sqlite3.connect(theirs) as database:
        database.execute("CREATE TABLE patients (name TEXT)")
    database.close()
    content = theirs.read_bytes()
    with pytest.raises(SettingsError, match="not an agent's"):
        Agent.open(theirs, SETTINGS.algorithm, DIM)
    assert theirs.read_bytes() == content
    newer = tmp_path / "newer.db"
    opened(newer).close()
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(SettingsError, match="format 99"):
        opened(newer)


def test_an_agent_whose_making_was_interrupted_can_be_made(tmp_path):
    empty, bare = tmp_path / "empty.db", tmp_path / "bare.db"
    empty.touch()
    database = sqlite3.connect(bare)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    assert bare.stat().st_size > 0
    for path in (empty, bare):
        with pytest.raises(SettingsError, match="there is no agent in"):
            Agent.open(path)
        with opened(path) as agent:
            assert agent.decide(arms_of(0)).index >= 0


def test_places_where_no_file_can_be(tmp_path):
    for path in (tmp_path / "missing" / "agent.db", tmp_path):
        with pytest.raises(StorageError):
            Agent.open(path, SETTINGS.algorithm, DIM)


def grown(path: Path, *, saved: bool) -> State:
    """An agent with a history, left without closing; `saved` as a snapshot, or as entries to be done again."""
    agent = opened(path, snapshot_every=20 if saved else 1000)
    ids = [agent.decide(arms_of(i)).id for i in range(30)]
    for i in range(0, 30, 2):
        agent.reward(ids[i], i / 30)
    for i in range(4):
        agent.answer(letter_of(i), "c", i)
    state = agent.state()
    # the log goes into the file, where nothing but our own checksums notices changed contents
    agent._journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    agent._journal.close()
    return state


@pytest.mark.parametrize("saved", [True, False])
def test_damaged_bytes_are_noticed_or_of_no_consequence(tmp_path, saved):
    path = tmp_path / "agent.db"
    state = grown(path, saved=saved)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes, messages = {"noticed": 0, "harmless": 0}, []
    for start in range(0, len(whole), max(128, len(whole) // 120)):
        damaged = bytearray(whole)
        damaged[start : start + 64] = rng.bytes(len(damaged[start : start + 64]))
        path.write_bytes(damaged)
        try:
            agent = opened(path)
            found = agent.state()
            agent._journal.close()
        except (StorageError, SettingsError) as error:  # settings, if the bytes that say whose file it is are hit
            outcomes["noticed"] += 1
            messages.append(str(error))
        else:
            assert same(found, state), f"bytes from {start} on"
            outcomes["harmless"] += 1
        for extra in (path.with_name("agent.db-wal"), path.with_name("agent.db-shm")):
            extra.unlink(missing_ok=True)
    assert min(outcomes.values()) > 10, outcomes
    assert all("agent.db" in message for message in messages), messages
    path.write_bytes(whole)
    with opened(path) as agent:
        assert same(agent.state(), state)


def test_flipped_bits_of_awaited_arms_are_not_learned_from(tmp_path):
    path = tmp_path / "agent.db"
    agent = opened(path)
    arms = arms_of(3)
    decision = agent.decide(arms)
    agent.close()
    content = path.read_bytes()
    assert content.count(arms.tobytes()) == 1
    at = content.index(arms.tobytes())
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    agent = opened(path)
    before = agent.state()
    with pytest.raises(CorruptError, match="the decision of entry 1 is missing or damaged"):
        agent.reward(decision.id, 1.0)
    assert same(agent.state(), before)
    assert agent.decide(arms).index >= 0


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DELETE FROM rewards WHERE entry = 33", "entry 33"),
        ("DELETE FROM letters WHERE entry = 46", "entry 46"),
        ("DELETE FROM decisions WHERE entry = 5", "entry 5"),
        ("DELETE FROM shown WHERE decision = 5", "the decision of entry 5"),
        ("UPDATE decisions SET pick = pick + 1 WHERE entry = 5", "the decision of entry 5"),
        ("UPDATE rewards SET value = value + 1 WHERE entry = 33", "the reward of entry 33"),
        ("UPDATE rewards SET decision = 2 WHERE entry = 33", "the reward of entry 33"),
        ("UPDATE letters SET request = x'00' WHERE entry = 46", "the letter of entry 46"),
        ("UPDATE settings SET text = replace(text, '5.0', '6.0')", "the description of the agent"),
        ("INSERT INTO snapshots SELECT 3, '{}', x'00', x'00'", "the snapshot after entry 3"),
    ],
)
def test_records_that_are_missing_or_changed_are_noticed(tmp_path, damage, found):
    path = tmp_path / "agent.db"
    grown(path, saved=False)
    with sqlite3.connect(path) as database:
        assert database.execute(damage).rowcount == 1
    database.close()
    with pytest.raises(CorruptError, match=f"{found} is missing or damaged"):
        opened(path)


# doing again


def test_a_record_that_cannot_be_done_again(tmp_path):
    """As if another processor had rounded differently: the recorded choice is another one than comes out."""
    path = tmp_path / "agent.db"
    agent = opened(path)
    decision = agent.decide(arms_of(1))
    agent._journal.close()
    with sqlite3.connect(path) as database:
        other = (decision.index + 1) % len(arms_of(1))
        row = list(database.execute("SELECT * FROM decisions").fetchone())
        row[3] = other
        database.execute("UPDATE decisions SET pick = ?, digest = ?", (other, digest(*row[:-1])))
    database.close()
    with pytest.raises(ReplayError, match="doing entry 1 again gives another result"):
        opened(path)
    with opened(path, verify=False) as agent:
        assert agent.reward(decision.id, 1.0)
        state = agent.state()
    population = SETTINGS.population()
    population.choose(ALONE, arms_of(1)[None])
    population.learn(ALONE, arms_of(1)[None], np.array([other]), np.array([1.0]))
    assert same(state, population.state())
    with opened(path) as again:  # closing has saved the state: there is nothing to do again
        assert same(again.state(), state)


@pytest.mark.parametrize("failing", ["begin", "version", "decide", "reward", "answer", "commit", "keep"])
@pytest.mark.parametrize("raised", [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt(), MemoryError()])
def test_failures_in_the_middle_of_a_call_leave_the_agent_usable(tmp_path, monkeypatch, failing, raised):
    """Whatever is raised at whatever point, the state is that of the file: the call has happened, or has not."""
    agent, twin = opened(tmp_path / "agent.db", snapshot_every=2), Twin()

    def fail(*arguments: Any, **named: Any) -> None:
        raise raised

    for number in range(3):
        decision = agent.decide(arms_of(number))
        twin.decide(arms_of(number))
        for call in ("decide", "reward", "answer"):
            before = agent.status()
            with monkeypatch.context() as patched:
                patched.setattr(type(agent._journal), failing, fail)
                with suppress(AgentError, KeyboardInterrupt, MemoryError):
                    if call == "decide":
                        agent.decide(arms_of(number + 50))
                    elif call == "reward":
                        agent.reward(decision.id, 1.0)
                    else:
                        agent.answer(letter_of(1), "c", number)
            after = agent.status()
            if after.decisions > before.decisions:
                twin.decide(arms_of(number + 50))
            if after.rewards > before.rewards:
                twin.reward(rewarded(twin, arms_of(number)), 1.0)
            if after.letters > before.letters:
                twin.answer(letter_of(1))
            happened = after != before
            assert not happened or failing not in ("begin", "version", "commit", call)
            assert same(agent.state(), twin.population.state())
    agent.close()
    with opened(tmp_path / "agent.db") as again:
        assert same(again.state(), twin.population.state())


def rewarded(twin: Twin, arms: np.ndarray) -> int:
    """Which of the twin's decisions was among `arms`."""
    return next(i for i, (shown, _) in enumerate(twin.shown) if np.array_equal(shown[0], arms))


if __name__ == "__main__":
    nursery()
