"""Bits that flip are found, or have no effect; files that are whole are said to be."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, AgentError, CorruptError, StorageError, back_up, check_file
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.storage import log_check
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.log_check import log_damage, log_of

FIXTURES = Path(__file__).parent / "fixtures"
LETTER = b"\x01\x07collect\x00"


def grown(path: Path) -> Agent:
    """A small agent that has something in every place: in its file, and after its snapshot in the log."""
    agent = Agent.open(
        path, fb.algorithms.DisLinUCB(threshold=0.5), 2, warm=False, durable=False, snapshot_every=16, expire_after=1e6
    )
    rng = np.random.default_rng(0)
    for step in range(15):
        if step == 10:
            agent._journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        decision = agent.decide({f"arm {k}": row for k, row in enumerate(rng.standard_normal((3, 2)))}, who=f"p{step}")
        if step % 4:
            agent.reward(decision.id, float(rng.uniform()))
        if step in (5, 12):
            agent.answer(LETTER, f"c{step}", 0)
    return agent


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> dict[str, bytes]:
    """The bytes of such an agent's file and log, as a killed process leaves them."""
    path = tmp_path_factory.mktemp("grown") / "agent.db"
    agent = grown(path)
    content = {"agent.db": path.read_bytes(), "agent.db-wal": log_of(path).read_bytes()}
    agent.close()
    assert min(map(len, content.values())) > 10_000
    return content


def laid_out(content: dict[str, bytes], where: Path) -> Path:
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    for name, held in content.items():
        (where / name).write_bytes(held)
    return where / "agent.db"


def rows(path: Path) -> dict[str, list[Any]]:
    """Everything on record, besides what SQLite keeps for itself."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def flips(content: dict[str, bytes], count: int, seed: int) -> list[tuple[str, int]]:
    rng = np.random.default_rng(seed)
    names = list(content)
    share = len(content[names[0]]) / sum(map(len, content.values()))
    chosen = [names[int(rng.random() > share)] for _ in range(count)]
    return [(name, int(rng.integers(8 * len(content[name])))) for name in chosen]


def flipped(content: dict[str, bytes], name: str, bit: int) -> dict[str, bytes]:
    damaged = bytearray(content[name])
    damaged[bit // 8] ^= 1 << bit % 8
    return content | {name: bytes(damaged)}


def assert_found_or_harmless(content: dict[str, bytes], where: Path, chosen: list[tuple[str, int]]) -> None:
    path = laid_out(content, where)
    expected = rows(path)
    found = 0
    for name, bit in chosen:
        path = laid_out(flipped(content, name, bit), where)
        try:
            findings = check_file(path).findings
        except AgentError as error:
            findings = (str(error),)
        if findings:
            found += 1
            continue
        assert rows(path) == expected, f"bit {bit} of {name} changes what is on record, and nobody says so"
        with Agent.open(path, warm=False, durable=False) as agent:
            assert agent.decide(np.eye(2)).index >= 0
    assert found > len(chosen) / 4


def test_flipped_bits_are_found_or_harmless(left, tmp_path):
    assert_found_or_harmless(left, tmp_path / "damaged", flips(left, 24, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_many_flipped_bits_are_found_or_harmless(left, tmp_path, seed):
    assert_found_or_harmless(left, tmp_path / "damaged", flips(left, 600, seed=100 + seed))


def test_a_whole_file_is_said_to_be_whole_and_is_left_alone(left, tmp_path):
    path = laid_out(left, tmp_path / "whole")
    report = check_file(path)
    assert (report.kind, report.format, report.findings) == ("agent", AGENT.newest, ())
    assert {"the log", "the structure", "the model", "decisions (15)", "the sequence of entries"} <= set(report.whole)
    assert {name: (path.parent / name).read_bytes() for name in left} == left
    with Agent.open(path, warm=False) as agent:
        agent.forget(who="p1")
        assert check_file(path).findings == (), "while it is in use, and after something was forgotten"
    assert check_file(path).findings == ()


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("UPDATE decisions SET arm = 'arm 9' WHERE entry = 1", "decisions: the row of 1 is damaged"),
        ("UPDATE decisions SET at = at + 1 WHERE entry = 1", "decisions: the row of 1 is damaged"),
        ("UPDATE rewards SET at = at + 1 WHERE entry = 3", "rewards: the row of 3 is damaged"),
        ("UPDATE counters SET value = 7 WHERE name = 'late'", "counters: the row of 'late' is damaged"),
        ("DELETE FROM decisions WHERE entry = 2", "1 of 28 entries are missing, beside 0 that were forgotten"),
        ("DELETE FROM rewards WHERE entry = 3", "1 of 28 entries are missing, beside 0 that were forgotten"),
        ("UPDATE snapshots SET books = replace(books, ' ', '')", "the model after entry 16 is damaged"),
        ("DROP INDEX shown_at", f"the tables are not those of format {AGENT.newest}"),
    ],
)
def test_history_that_was_changed_is_found(left, tmp_path, damage, finding):
    path = laid_out(left, tmp_path / "changed")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(damage)
    assert finding in check_file(path).findings


# the log


def test_a_damaged_log_is_not_passed_over(left, tmp_path):
    """SQLite itself takes what comes before the damage, and says nothing."""
    at = 8 * (32 + 24 + 100)  # in the first page of the log
    path = laid_out(flipped(left, "agent.db-wal", at), tmp_path / "damaged")
    with pytest.raises(
        CorruptError, match=r"agent\.db: the log is damaged at its beginning; \d+ complete transactions"
    ):
        Agent.open(path, warm=False)
    with pytest.raises(CorruptError, match=r"agent\.db: the log is damaged .* there is no copy"):
        back_up(path, tmp_path / "copy.db")
    assert log_of(path).stat().st_size == len(left["agent.db-wal"]), "nothing was thrown away"
    back_up(path, tmp_path / "copy.db", salvage=True)
    assert log_of(path).stat().st_size == len(left["agent.db-wal"])
    whole = laid_out(left, tmp_path / "whole")
    with Agent.open(tmp_path / "copy.db", warm=False) as rest, Agent.open(whole, warm=False) as all_of_it:
        assert 0 < rest.status().decisions < all_of_it.status().decisions


def test_a_log_that_a_crash_cut_short_is_no_damage(left, tmp_path, monkeypatch):
    """In the first page, in the last ones, and in the first page of a block that is read at once."""
    monkeypatch.setattr(log_check, "_BLOCK", 4)
    page, log = 24 + 2048, left["agent.db-wal"]
    assert len(log) > 32 + 5 * page
    early = (0, 31, 32, 33, 32 + page - 1, 32 + page, 32 + 4 * page, 32 + 4 * page + 1, 32 + 5 * page - 1)
    for cut in (*early, *range(len(log) - 6000, len(log), 531)):
        path = laid_out(left | {"agent.db-wal": log[:cut]}, tmp_path / "cut")
        assert log_damage(path) is None
        Agent.open(path, warm=False, durable=False).close()


def test_a_power_failure_may_cost_those_their_last_calls_who_do_not_wait_for_the_disk(left, tmp_path, caplog):
    page = 24 + 2048
    log = left["agent.db-wal"]
    hole = log[: 32 + page] + bytes(page) + log[32 + 2 * page :]
    path = laid_out(left | {"agent.db-wal": hole}, tmp_path / "hole")
    with pytest.raises(CorruptError, match="the log is damaged after 1 of"):
        Agent.open(path, warm=False, durable=True)
    Agent.open(path, warm=False, durable=False).close()
    assert "a power failure, or damage" in caplog.text


def test_a_log_in_use_is_read_while_others_write(tmp_path):
    agent = grown(tmp_path / "agent.db")
    for _ in range(20):
        agent.decide(np.eye(2))
        assert log_damage(tmp_path / "agent.db") is None
    agent.close()


class Growing(io.BytesIO):
    """A log whose first `there` bytes are on disk, and which has grown by a page whenever its end was read."""

    there = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        found = super().read(max(0, min(size, self.there - self.tell())))
        self.there += 24 + 2048 if len(found) < size else 0
        return found


@pytest.mark.parametrize("more", [0, 1, 24, 2071])
def test_a_log_that_grows_while_it_is_read_is_no_damage(left, more):
    """Another process has written a part of a page, and goes on: nothing is read from the middle of a page."""
    log = Growing(left["agent.db-wal"])
    log.there = 32 + 3 * (24 + 2048) + more
    assert log_check._damage_in(log) is None
    assert log.tell() <= 32 + 3 * (24 + 2048) + more


# other files


def test_books_and_files_of_earlier_formats_are_checked_as_far_as_they_can_be(tmp_path):
    shutil.copytree(FIXTURES / "0.1.0" / "federation", tmp_path / "former")
    for name, kind in (("agent-0.db", "agent"), ("server.db", "server")):
        report = check_file(tmp_path / "former" / name)
        assert (report.kind, report.format, report.findings) == (kind, 1, ())
    with Book(tmp_path / "former" / "server.db") as book:
        report = check_file(tmp_path / "former" / "server.db")
        assert report.format > 1
        assert report.findings == ()
        book.save(server={"pool": np.zeros(300)})
    with closing(sqlite3.connect(tmp_path / "former" / "server.db", isolation_level=None)) as db:
        state = bytearray(db.execute("SELECT state FROM snapshot WHERE part = 'server'").fetchone()[0])
        state[len(state) // 3] ^= 1
        db.execute("UPDATE snapshot SET state = ? WHERE part = 'server'", (bytes(state),))
    assert "the saved state of 'server' is damaged" in check_file(tmp_path / "former" / "server.db").findings[0]


def test_what_is_no_database_is_told_in_one_line(tmp_path):
    with pytest.raises(StorageError, match="there is no such file"):
        check_file(tmp_path / "missing.db")
    (tmp_path / "text.db").write_text("These are not the bytes of a database.\n" * 100)
    (finding,) = check_file(tmp_path / "text.db").findings
    assert "cannot be read as a database" in finding


# copies


def test_a_damaged_file_has_no_copies(left, tmp_path):
    path = laid_out(left, tmp_path / "changed")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE decisions SET who = 'somebody else' WHERE entry = 1")
    with pytest.raises(CorruptError, match=r"agent\.db: decisions: the row of 1 is damaged; there is no copy"):
        back_up(path, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))


def test_what_an_interrupted_copy_left_does_not_matter(left, tmp_path):
    path = laid_out(left, tmp_path / "whole")
    for rest in ("", "-wal", "-journal"):
        (tmp_path / f"copy.db.partial{rest}").write_bytes(b"rubbish" * 1000)
    back_up(path, tmp_path / "copy.db")
    assert check_file(tmp_path / "copy.db").findings == ()
    copied, held = rows(tmp_path / "copy.db"), rows(path)
    assert [row[:2] for row in copied["counters"] if row not in held["counters"]] == [("copies", 1)], "it is marked"
    assert copied | {"counters": held["counters"]} == held
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.slow
def test_the_command(left, tmp_path):
    """One line for each finding, and exit code 1."""
    path = laid_out(left, tmp_path / "whole")
    command = [sys.executable, "-m", "fedbandits", "agent", "check", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert (found.returncode, "whole: the log, the structure" in found.stderr) == (0, True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE rewards SET value = value + 1 WHERE entry IN (3, 5)")
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert found.returncode == 1
    assert f"{path}: rewards: the row of 3 is damaged" in found.stderr
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, env=os.environ)
    assert as_json.returncode == 1
    assert '"findings": [' in as_json.stdout
    assert dataclasses.asdict(check_file(path))["kind"] == "agent"
