"""Files of earlier formats become files of the newest one, whole or not at all.

`fixtures/format-2` was left by the last version with that format: closed, or killed with entries in the log after its
snapshot. What that version did next itself is beside each file; those of format 1 are in `test_files_of_0_1_0`.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, CorruptError, SettingsError, StorageError
from fedbandits.deploy.storage.digests import digest
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.schema import Schema, statements

FIXTURES = Path(__file__).parent / "fixtures"
FORMER = FIXTURES / "format-2"
NAMES = sorted(path.stem for path in FORMER.glob("*.db"))
SAME_PROCESSOR = llvmlite.binding.get_host_cpu_name() == "znver3"


class Left:
    """A copy of what the earlier version left, and what it did next."""

    def __init__(self, name: str, away: Path) -> None:
        self.path = away / f"{name}.db"
        for file in FORMER.glob(f"{name}.db*"):
            shutil.copy(file, away)
        self.expected: dict[str, Any] = json.loads((FORMER / f"{name}.expected.json").read_text())
        with np.load(FORMER / f"{name}.states.npz") as held:
            self.states = dict(held)

    def open(self) -> Agent:
        return Agent.open(self.path, verify=SAME_PROCESSOR, warm=False, clock=lambda: self.expected["clock"])

    def assert_agrees(self, agent: Agent, stage: str, status: str) -> None:
        state = agent.state()
        for name, array in state.items():
            np.testing.assert_allclose(array, self.states[f"{stage}.{name}"], rtol=1e-9, atol=1e-12, err_msg=name)
        found = dataclasses.asdict(agent.status())
        found["synchronised_at"] = found["synchronised_at"] and found["synchronised_at"].isoformat()
        assert {name: found[name] for name in self.expected[status]} == pytest.approx(self.expected[status])


@pytest.fixture(params=NAMES)
def left(request, tmp_path) -> Left:
    return Left(request.param, tmp_path)


def test_files_of_format_2_go_on_as_they_would_have(left):
    private = "dp-" in left.path.name
    with left.open() as agent:
        left.assert_agrees(agent, "opened", "status")
        assert [agent.decide(menu).index for menu in left.expected["menus"]] == left.expected["picks"]
        for name, value in zip(left.expected["waiting"], left.expected["rewards"], strict=True):
            assert agent.reward(name, value)
        if not private:  # fresh noise protects whatever is learned from now on
            left.assert_agrees(agent, "after", "status_after")
        state = agent.state()
    with left.open() as again:
        for name, array in state.items():
            np.testing.assert_array_equal(again.state()[name], array)
    assert file_format(left.path) == AGENT.newest


def test_old_files_and_new_ones_have_the_same_tables(left, tmp_path):
    left.open().close()
    Agent.open(tmp_path / "new.db", fb.algorithms.DisLinUCB(), 3, warm=False).close()
    assert tables(left.path) == tables(tmp_path / "new.db")


def test_what_was_damaged_before_gets_no_fresh_checksum(tmp_path):
    """Each on its own is refused in one line, and the file stays as it was."""
    for damage in (
        "UPDATE rewards SET value = value + 1 WHERE entry = 2",
        "UPDATE shown SET arms = zeroblob(length(arms)) WHERE decision = (SELECT max(decision) FROM shown)",
        "UPDATE letters SET reply = zeroblob(length(reply)) WHERE entry = (SELECT min(entry) FROM letters)",
        "DELETE FROM decisions WHERE entry = (SELECT max(decision) FROM shown)",
    ):
        left = Left("dislinucb-closed", tmp_path)
        with closing(sqlite3.connect(left.path, isolation_level=None)) as db:
            db.execute(damage)
        with pytest.raises(CorruptError, match=r"dislinucb-closed\.db: entry \d+ is damaged; restore the file"):
            left.open()
        assert file_format(left.path) == 2


def test_a_file_that_a_newer_version_takes_over_is_let_go(tmp_path):
    with Agent.open(tmp_path / "agent.db", fb.algorithms.DisLinUCB(), 2, warm=False, durable=False) as agent:
        agent.decide(np.eye(2))
        with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as db:
            db.execute(f"PRAGMA user_version = {AGENT.newest + 1}")
        with pytest.raises(StorageError, match=r"has got format \d while it was open, .* start this program again"):
            agent.decide(np.eye(2))
        with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as db:
            assert db.execute("SELECT count(*) FROM decisions").fetchone() == (1,)


# the mechanism

TOYS = Schema("a toy's", 77, {0: statements("CREATE TABLE toys (name)"), 1: statements("ALTER TABLE toys ADD age")})


def test_a_new_file_takes_every_step_and_one_that_is_up_to_date_none(tmp_path):
    with closing(sqlite3.connect(tmp_path / "toys.db", isolation_level=None)) as db:
        db.execute("BEGIN")
        assert TOYS.bring_forward(db, "toys.db") == 0
        db.execute("COMMIT")
        db.execute("BEGIN")
        assert TOYS.bring_forward(db, "toys.db") == TOYS.newest == 2
        db.execute("COMMIT")
        assert db.execute("SELECT name, age FROM toys").fetchall() == []


def test_newer_files_and_those_of_others_are_refused_in_one_line(tmp_path):
    with closing(sqlite3.connect(tmp_path / "toys.db", isolation_level=None)) as db:
        TOYS.bring_forward(db, "toys.db")
        db.execute("PRAGMA user_version = 9")
        with pytest.raises(SettingsError, match=r"^toys\.db has format 9, this version of fedbandits reads 2; update"):
            TOYS.bring_forward(db, "toys.db")
        db.execute("PRAGMA user_version = -1")
        with pytest.raises(SettingsError, match=r"its format is damaged \(-1\)"):
            TOYS.bring_forward(db, "toys.db")
        db.execute("PRAGMA application_id = 78")
        with pytest.raises(SettingsError, match="a database, but not a toy's"):
            TOYS.bring_forward(db, "toys.db")


def test_files_from_before_the_mark_are_known_by_their_format():
    marked_later = dataclasses.replace(TOYS, marked_since=2)
    for schema, known in ((TOYS, False), (marked_later, True)):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.execute("CREATE TABLE toys (name)")
            db.execute("PRAGMA user_version = 1")
            if known:
                assert schema.bring_forward(db, "toys.db") == 1
                assert db.execute("PRAGMA application_id").fetchone() == (77,)
            else:
                with pytest.raises(SettingsError, match="not a toy's"):
                    schema.bring_forward(db, "toys.db")


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path):
    with closing(sqlite3.connect(tmp_path / "toys.db", isolation_level=None)) as db:
        dataclasses.replace(TOYS, steps={0: TOYS.steps[0]}).bring_forward(db, "toys.db")
        failing = dataclasses.replace(TOYS, steps={**TOYS.steps, 2: statements("INSERT INTO nowhere VALUES (1)")})
        db.execute("BEGIN")
        with pytest.raises(sqlite3.OperationalError):
            failing.bring_forward(db, "toys.db")
        db.execute("ROLLBACK")
        assert file_format(tmp_path / "toys.db") == 1
        assert [row[1] for row in db.execute("PRAGMA table_info(toys)")] == ["name"]


# checksums


def test_a_digest_tells_values_types_and_places_apart():
    different = [(1,), (1.0,), ("1",), (b"1",), (None,), (), (1, None), (None, 1), ("a", "b"), ("ab", ""), ("", "ab")]
    assert len({digest(*values) for values in different}) == len(different)
    assert digest(1, 2.5, "x", b"y", None) == digest(1, 2.5, "x", b"y", None)


def file_format(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def tables(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: db.execute(f"PRAGMA table_info({name})").fetchall() for name in names}
