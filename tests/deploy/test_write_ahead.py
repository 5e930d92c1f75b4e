"""The agent's file on unlucky days: clocks that jump, files that vanish, logs that cannot be emptied, full disks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, DiskFullError, ExpiredError, LockedError, StorageError, back_up
from fedbandits.deploy.storage import write_ahead
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.log_check import log_of

FORMER = Path(__file__).parent / "fixtures" / "format-2"
YEAR = 3.2e7


def opened(path: Path, **options: Any) -> Agent:
    made = {"algorithm": fb.algorithms.DisLinUCB(), "dim": 2, "durable": False, "warm": False}
    return Agent.open(path, **(made | options))


# clocks


def test_a_clock_that_jumped_ahead_does_not_stop_expiry(tmp_path):
    """What was stamped ahead expires by its own stamp; everything else as if it were not there."""
    now = [1000.0]
    with opened(tmp_path / "agent.db", expire_after=100, clock=lambda: now[0], snapshot_every=4) as agent:
        before = agent.decide(np.eye(2))
        now[0] += YEAR
        ahead = agent.decide(np.eye(2))
        now[0] -= YEAR
        after = [agent.decide(np.eye(2)) for _ in range(3)]
        now[0] += 150
        assert (agent.status().expired, agent.status().awaiting) == (4, 1)
        recent = [agent.decide(np.eye(2)) for _ in range(6)]  # with a snapshot in between, which drops what has expired
        assert (agent.status().expired, agent.status().awaiting) == (4, 7)
        with closing(sqlite3.connect(agent.path)) as db:
            assert db.execute("SELECT count(*) FROM shown").fetchone() == (7,)
        for decision in (before, *after):
            with pytest.raises(ExpiredError):
                agent.reward(decision.id, 1.0)
        assert agent.reward(ahead.id, 1.0)
        assert agent.reward(recent[0].id, 1.0)


# files that are not there any more


@pytest.mark.parametrize("lost", ["agent.db", "agent.db-wal"])
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_nothing_is_written_to_a_file_that_is_gone(tmp_path, monkeypatch, how, lost):
    monkeypatch.setattr(write_ahead, "_LOOK_SECONDS", 0.0)
    path = tmp_path / lost
    agent = opened(tmp_path / "agent.db")
    decision = agent.decide(np.eye(2))
    shutil.copy(path, tmp_path / "copy")
    if how == "deleted":
        path.unlink()
    elif how == "moved":
        path.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "copy").rename(path)
    for call in (
        lambda: agent.decide(np.eye(2)),
        lambda: agent.reward(decision.id, 1.0),
        lambda: agent.status(),
        lambda: agent.forget(0.0),
    ):
        told = "replaced by another file" if how == "replaced" else "deleted or moved"
        with pytest.raises(StorageError, match=rf"{lost}: was {told} while it was open; nothing more is written"):
            call()
    agent.close()
    if lost == "agent.db":
        assert path.exists() == (how == "replaced")
    else:  # the file is there, and closing has copied the log into it that nobody else can see
        with opened(tmp_path / "agent.db") as again:
            assert again.status().decisions == 1


def test_a_file_that_was_put_back_is_the_agent_again(tmp_path, monkeypatch):
    monkeypatch.setattr(write_ahead, "_LOOK_SECONDS", 0.0)
    path = tmp_path / "agent.db"
    agent = opened(path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="deleted or moved"):
        agent.decide(np.eye(2))
    (tmp_path / "elsewhere").rename(path)
    assert agent.decide(np.eye(2)).index >= 0
    agent.close()


# the log


def test_a_small_call_writes_little(tmp_path):
    """A decision and its reward touch seven pages of two kilobytes."""
    with opened(tmp_path / "agent.db", snapshot_every=10**6) as agent:
        agent._journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(100):
            agent.reward(agent.decide(np.eye(2)).id, 1.0)
        assert log_of(agent.path).stat().st_size < 100 * 14_000


@pytest.fixture
def small_log(monkeypatch) -> tuple[int, int]:
    limits = (2**18, 2**20)
    for name, value in zip(("LOG_BYTES", "LOG_MOST"), limits, strict=True):
        monkeypatch.setattr(write_ahead, name, value)
    monkeypatch.setattr(write_ahead, "_LOOK_SECONDS", 0.0)
    return limits


def test_the_log_stays_short(tmp_path, small_log):
    """Also where one decision is among arms of 80 kB."""
    arms = np.random.default_rng(0).standard_normal((200, 50))
    with opened(tmp_path / "agent.db", dim=50, snapshot_every=10) as agent:
        longest = 0
        for _ in range(40):
            agent.reward(agent.decide(arms).id, 1.0)
            longest = max(longest, log_of(agent.path).stat().st_size)
        assert longest < 2 * small_log[0] + 2 * arms.nbytes


def test_somebody_who_reads_for_long_does_not_let_the_log_grow_without_end(tmp_path, small_log):
    path = tmp_path / "agent.db"
    agent = opened(path, timeout=0.05)
    agent.decide(np.eye(2))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM decisions").fetchone()

        def go_on() -> None:
            for _ in range(1000):
                agent.reward(agent.decide(np.eye(2)).id, 1.0)

        with pytest.raises(LockedError, match=r"its log has 1 MiB, since another process has been reading for long"):
            go_on()
        assert log_of(path).stat().st_size < 1.1 * small_log[1]
        assert agent.status().decisions > 10, "looking is still possible"
        reader.execute("ROLLBACK")
    assert agent.decide(np.eye(2)).index >= 0
    assert log_of(path).stat().st_size < small_log[0]
    agent.close()


# files of an earlier format, when bringing them forward goes wrong


def former(where: Path) -> Path:
    for file in FORMER.glob("dislinucb-killed.db*"):
        shutil.copy(file, where)
    return where / "dislinucb-killed.db"


def expected() -> dict[str, np.ndarray]:
    with np.load(FORMER / "dislinucb-killed.states.npz") as held:
        return {name.removeprefix("opened."): held[name] for name in held if name.startswith("opened.")}


def assert_old_or_new(path: Path) -> int:
    """The format that was found; in either it is the same agent."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        (found,) = db.execute("PRAGMA user_version").fetchone()
    assert found in (2, AGENT.newest)
    with Agent.open(path, verify=False, warm=False, durable=False) as agent:
        for name, array in expected().items():
            np.testing.assert_allclose(agent.state()[name], array, rtol=1e-9, atol=1e-12)
    return found


def test_a_disk_that_fills_while_a_file_is_brought_forward(tmp_path, monkeypatch):
    path = former(tmp_path)
    real = sqlite3.connect
    refused = 0
    for more in range(40):

        def limited(*given: Any, more: int = more, **named: Any) -> sqlite3.Connection:
            db = real(*given, **named)
            db.execute(f"PRAGMA max_page_count = {12 + more}")
            return db

        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", limited)
            try:
                Agent.open(path, verify=False, warm=False, durable=False).close()
                break
            except DiskFullError as error:
                refused += 1
                assert "no room left" in str(error)  # noqa: PT017
        copy = tmp_path / "copy"
        copy.mkdir(exist_ok=True)
        for file in tmp_path.glob("dislinucb-killed.db*"):
            shutil.copy(file, copy)
        assert assert_old_or_new(copy / path.name) == 2
        shutil.rmtree(copy)
    assert refused > 3
    assert assert_old_or_new(path) == AGENT.newest


def bring_forward_and_die(path: str, statements: int) -> None:
    """What the child of `killed_while_brought_forward` does."""
    real = sqlite3.connect

    def fused(*given: Any, **named: Any) -> sqlite3.Connection:
        left = [statements]
        db = real(*given, **named)

        def count(_: str) -> None:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        db.set_trace_callback(count)
        return db

    sqlite3.connect = fused  # type: ignore[assignment]
    Agent.open(path, verify=False, warm=False).close()


@pytest.mark.slow
def test_killed_while_a_file_is_brought_forward(tmp_path):
    """Before any of its statements: afterwards it is the old file or the new one."""
    cases = []
    for statements in range(0, 120, 3):
        where = tmp_path / str(statements)
        where.mkdir()
        cases.append((str(former(where)), statements))
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, __file__], input=json.dumps(cases), text=True, env=environment, check=True)
    found = [assert_old_or_new(Path(path)) for path, _ in cases]
    assert found == sorted(found)
    assert set(found) == {2, AGENT.newest}


# a disk that fills while a copy is made


@contextmanager
def small_disk(where: Path) -> Iterator[Path]:
    where.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(where)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a small disk")
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


def test_a_copy_that_has_no_room_blames_its_own_disk(tmp_path):
    with opened(tmp_path / "agent.db") as agent, small_disk(tmp_path / "disk") as disk:
        with pytest.raises(DiskFullError, match=r"disk/copy\.db\.partial: there is no room left on its disk"):
            back_up(agent.path, disk / "copy.db")
        assert list(disk.iterdir()) == []
        assert agent.decide(np.eye(2)).index >= 0


if __name__ == "__main__":
    for where, count in json.load(sys.stdin):
        if (child := os.fork()) == 0:
            bring_forward_and_die(where, count)
            os._exit(0)
        os.waitpid(child, 0)
