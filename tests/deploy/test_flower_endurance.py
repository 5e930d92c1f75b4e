"""The server lives through what passes by itself, says so once, and ends with what does not."""

from __future__ import annotations

import errno
import logging
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

import httpx
from flower_worlds import Deployed, Simulated, assert_same
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
from flwr.supercore.run import RunNotRunningException

import fedbandits as fb
from fedbandits.contract.errors import ConfigError
from fedbandits.deploy.flower.conversation.endurance import Backoff, Endurance, trouble
from fedbandits.deploy.flower.conversation.server_log import log_to
from fedbandits.deploy.flower.conversation.turnstile import alone, is_taken
from fedbandits.deploy.flower.server_app import Pulse, serve

LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
REQUEST = httpx.Request("POST", "https://superlink/v1/runtime/push-messages")


def refusing(status):
    return httpx.HTTPStatusError("refused", request=REQUEST, response=httpx.Response(status, request=REQUEST))


def full():
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


PASSING = [
    httpx.ConnectError("connection refused"),
    httpx.RemoteProtocolError("server disconnected"),
    refusing(500),
    ObjectPullError("id", "not there"),
    ObjectPushError("id", 1, "session"),
    full(),
    sqlite3.OperationalError("disk I/O error"),
    OSError(errno.ENOSPC, "No space left on device"),
    TimeoutError("timed out"),
]
PASSING[6].sqlite_errorcode = sqlite3.SQLITE_IOERR
STAYING = [ValueError("a defect"), KeyError("a"), RunNotRunningException(), sqlite3.ProgrammingError("closed")]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_by_itself_is_known(error, tmp_path):
    assert trouble(error, tmp_path / "server.db")


@pytest.mark.parametrize("error", STAYING, ids=repr)
def test_defects_and_the_end_of_the_run_are_not_lived_through(error, tmp_path):
    assert trouble(error, tmp_path / "server.db") is None


def test_a_damaged_book_is_not_lived_through(tmp_path):
    (tmp_path / "server.db").write_bytes(b"no database" * 100)
    with sqlite3.connect(tmp_path / "server.db") as db, pytest.raises(sqlite3.DatabaseError) as raised:
        db.execute("SELECT 1 FROM facts")
    assert trouble(raised.value, tmp_path / "server.db") is None


def test_waits_grow_up_to_a_limit_and_begin_anew():
    backoff = Backoff(1.0, 10.0)
    assert [backoff.next() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.reset()
    assert backoff.next() == 1.0


def test_each_kind_of_trouble_is_said_once(tmp_path, caplog):
    waits = []
    endurance = Endurance(tmp_path / "server.db", Backoff(1.0, 4.0), waits.append)
    with caplog.at_level(logging.INFO, logger="fedbandits"):
        for _ in range(50):
            assert endurance.lives_through(httpx.ConnectError("refused"))
        assert endurance.lives_through(full())
        endurance.over()
        endurance.over()
    assert len(caplog.records) == 3
    assert "all is well again after 51 failures" in caplog.text
    assert waits[:4] == [1.0, 2.0, 4.0, 4.0]


class EnoughError(Exception):
    """The test has seen enough."""


class Steps:
    """Drives a federation under `serve`: every agent decides before each step, and after the last it is over."""

    def __init__(self, deployed, simulated, steps):
        self.deployed, self.simulated, self.steps = deployed, simulated, steps
        self.done = 0

    def step(self):
        if self.done == self.steps:
            raise EnoughError
        if not self.deployed.book.cut() and self.lived == self.done:
            self.deployed.live(self.done)
            self.simulated.live(self.done)
            self.lived += 1
        self.deployed.coordinator.step()
        self.simulated.converse()
        self.done += 1

    lived = 0

    def recover(self):
        self.deployed.coordinator.recover()


def test_a_full_disk_at_any_moment_changes_nothing(tmp_path):
    """SQLite itself says that there is no room, now and then and in the middle of conversations; room is made while
    the server waits. At the end all is as if nothing had happened.
    """
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), LINEAR, 20)
    simulated = Simulated(deployed)
    db, rng, failures = deployed.book._db, np.random.default_rng(0), []

    def fill(who, letter):
        if rng.random() < 0.25:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute("CREATE TABLE IF NOT EXISTS ballast (content BLOB)")
            db.execute(f"PRAGMA max_page_count = {pages + 1}")
        return "delivered"

    def make_room(seconds):
        failures.append(seconds)
        db.execute("PRAGMA max_page_count = 1000000")

    deployed.post.fate = fill
    steps = Steps(deployed, simulated, 12)
    with pytest.raises(EnoughError):
        serve(steps, deployed.book, 0.0, Endurance(tmp_path, sleep=make_room), Pulse(deployed.book))
    assert_same(deployed.states(), simulated.states())
    np.testing.assert_array_equal(deployed.coordinator.ledger.counts, simulated.ledger.counts)
    assert failures, "the disk was never full"


def test_a_superlink_that_is_away_for_a_while_changes_nothing(tmp_path):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), LINEAR, 12)
    simulated = Simulated(deployed)
    errors = [error for error in PASSING if isinstance(error, httpx.HTTPError | ObjectPullError | ObjectPushError)]

    def away(who, letter):
        if errors and who == 1:
            raise errors.pop()
        return "delivered"

    deployed.post.fate = away
    steps = Steps(deployed, simulated, 12)
    with pytest.raises(EnoughError):
        serve(steps, deployed.book, 0.0, Endurance(tmp_path, sleep=lambda _: None), Pulse(deployed.book))
    assert errors == []
    assert_same(deployed.states(), simulated.states())


def test_a_defect_ends_the_server(tmp_path):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), LINEAR, 12)

    def defect(seconds):
        raise KeyError("a defect")

    deployed.post.ring = defect
    with pytest.raises(KeyError):
        serve(deployed.coordinator, deployed.book, 0.0, Endurance(tmp_path), Pulse(deployed.book))


def test_a_server_that_waits_shows_that_it_is_alive(tmp_path):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), LINEAR, 12)
    now = [1000.0]
    pulse = Pulse(deployed.book, lambda: now[0])
    seen = []
    for moment in (1000.0, 1001.0, 1006.0, 900.0):
        now[0] = moment
        assert pulse() is False
        seen.append(deployed.book.fact("alive_at"))
    assert seen == [1000.0, 1000.0, 1006.0, 900.0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_log_that_cannot_be_written_costs_records_and_nothing_else(capfd):
    ours = logging.getLogger("fedbandits")
    before, level = list(ours.handlers), ours.level
    log_to(Path("/dev/full"))
    try:
        for _ in range(3):
            ours.warning("there is no room for this")
        (handler,) = [handler for handler in ours.handlers if handler not in before]
        with pytest.raises(OSError, match="No space left"):
            handler.stream.close()
    finally:
        ours.handlers[:] = before
        ours.setLevel(level)
    assert "Logging error" not in capfd.readouterr().err


def test_one_server_at_a_time(tmp_path):
    assert not is_taken(tmp_path)
    with alone(tmp_path):
        assert is_taken(tmp_path)
        began = time.monotonic()
        with pytest.raises(ConfigError, match="another server serves"), alone(tmp_path, seconds=0.3):
            pass
        assert time.monotonic() - began >= 0.3, "one that is on its way out is waited for"
    assert not is_taken(tmp_path)
