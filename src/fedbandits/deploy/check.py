"""Whether a file is what was written: everything in it is read and held against its checksums.

For an agent's file: SQLite's own structure and the log; the tables; every row of the history, the counters, the
settings and the model, each by its checksum; that no entry is missing; and that doing again what came after the model
was saved gives what is on record. A bit that has flipped anywhere in this is found; in pages that are not in use, and
in such bytes of SQLite's own as it does not rely on, it is not, and has no effect.

A server's book has no checksums of its own beside those of the saved states: there, damage to other rows is found as
far as it hurts their structure.

Nothing is written, and others may use the file meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.state import from_bytes
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import AgentError, DatabaseErrors, StorageError
from fedbandits.deploy.flower.book.book_tables import SCHEMA as BOOK
from fedbandits.deploy.settings import stored
from fedbandits.deploy.storage.digests import digest, sha, snapshot_digest
from fedbandits.deploy.storage.history import LETTER, History
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.log_check import log_damage
from fedbandits.deploy.storage.schema import Schema

_ROWS = {
    "decisions": "entry, at, tag, pick, arm, features, who, score, propensity, explored, digest",
    "shown": "decision, at, names, arms, digest",
    "kept": "decision, at, names, arms, digest",
    "rewards": "entry, decision, at, value, digest",
    "letters": f"{LETTER}, digest",
    "nonces": "entry, nonce, digest",
    "counters": "name, value, digest",
    "places": "place, name, retired, digest",
    "imports": "content, at, rows, digest",
    "episodes": "first, name, at, stages, ended, closed, closed_at, learned, digest",
    "stages": "decision, episode, stage, digest",
}
"""What the digests of a table are over, and last the digest itself."""
_ENTRIES = (
    "SELECT entry FROM decisions UNION ALL SELECT entry FROM rewards UNION ALL SELECT entry FROM letters "
    "UNION ALL SELECT closed AS entry FROM episodes WHERE closed IS NOT NULL"
)
_DAMAGE = (sqlite3.Error, UnicodeError, ValueError, TypeError, KeyError, OverflowError)
"""What reading a damaged row may raise."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a file."""

    file: str
    kind: str
    """ "agent" or "server"."""
    format: int
    findings: tuple[str, ...]
    """What is damaged, one line each; empty if nothing is."""
    whole: tuple[str, ...]
    """What was read and found to be what was written."""


def check_file(path: str | os.PathLike[str], *, replay: bool = True) -> Report:
    """Read all of the file at `path`, an agent's or a server's book.

    `replay`: also do again what came after the saved model, which another processor may round differently. Raises
    `StorageError` if there is no such file, and `SettingsError` if it is somebody else's or of a newer format.
    """
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"{path}: there is no such file")
    findings: list[str] = []
    whole: list[str] = []
    damage = log_damage(path)
    (findings if damage else whole).append("the log" if damage is None else str(damage))
    kind, found = "file", 0
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as db:
            db.execute("BEGIN")  # all is read as of one moment
            schema = AGENT if db.execute("PRAGMA application_id").fetchone() == (AGENT.mark,) else BOOK
            kind = "agent" if schema is AGENT else "server"
            found = schema.format_of(db, path)
            parts = _agent(db, path, found, replay) if schema is AGENT else _book(db, found)
            for name, complaints in parts:
                told = _told(complaints)
                findings += told
                whole += [] if told else [name]
    except DatabaseErrors as error:
        findings.append(f"it cannot be read as a database: {error}")
    return Report(str(path), kind, found, tuple(findings), tuple(whole))


Part = tuple[str, Callable[[], Iterable[str]]]
"""What is looked at, and what is wrong with it."""


def _told(complaints: Callable[[], Iterable[str]]) -> list[str]:
    told: list[str] = []
    try:
        told.extend(complaints())
    except AgentError as error:
        told.append(str(error))
    except _DAMAGE as error:
        told.append(f"it cannot be read to the end: {error}")
    return told


def _agent(db: sqlite3.Connection, path: Path, found: int, replay: bool) -> Iterator[Part]:
    yield "the structure", partial(_structure, db, AGENT, found)
    if found < AGENT.newest:  # it gets its checksums when it is opened
        return
    yield "the description of the agent", partial(_settings, db)
    for table, columns in _ROWS.items():
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        if count:
            yield f"{table} ({count})", partial(_rows, db, table, columns)
    yield "requests and replies that are kept", partial(_kept_letters, db)
    yield "the model", partial(_model, db)
    yield "the sequence of entries", partial(_sequence, db)
    if replay:
        yield "what follows from the entries after the model", partial(_replayed, db, path)


def _book(db: sqlite3.Connection, found: int) -> Iterator[Part]:
    yield "the structure", partial(_structure, db, BOOK, found)
    yield "the saved states", partial(_states, db)


def _structure(db: sqlite3.Connection, schema: Schema, found: int) -> Iterator[str]:
    """SQLite's own check, and whether the tables are those of the format."""
    for (line,) in db.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"SQLite: {line}"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for version in range(found):
            schema.steps[version](fresh)
        if _tables(db) != _tables(fresh):
            yield f"the tables are not those of format {found}"


def _tables(db: sqlite3.Connection) -> dict[tuple[str, str], list[Any]]:
    """The columns of all tables and indices, by kind and name."""
    described = db.execute("SELECT type, name FROM sqlite_master").fetchall()
    return {(kind, name): db.execute(f'PRAGMA {kind}_xinfo("{name}")').fetchall() for kind, name in described}


def _settings(db: sqlite3.Connection) -> Iterator[str]:
    rows = db.execute("SELECT text, digest FROM settings").fetchall()
    if len(rows) != 1 or rows[0][1] != sha(rows[0][0].encode()):
        yield "the description of the agent is damaged"


def _rows(db: sqlite3.Connection, table: str, columns: str) -> Iterator[str]:
    for row in db.execute(f"SELECT {columns} FROM {table}"):
        if digest(*row[:-1]) != row[-1]:
            yield f"{table}: the row of {row[0]!r} is damaged"


def _kept_letters(db: sqlite3.Connection) -> Iterator[str]:
    saved = History("", db).newest_snapshot()
    for part in ("request", "reply"):
        for entry, content, held in db.execute(f"SELECT entry, {part}, {part}_digest FROM letters"):
            if content is not None and sha(content) != held:
                yield f"letters: the {part} of entry {entry} is damaged"
            if content is None and entry > saved and held != sha(None):
                yield f"letters: the {part} of entry {entry} is missing"


def _model(db: sqlite3.Connection) -> Iterator[str]:
    for entry, counts, state, held in db.execute("SELECT entry, books, state, digest FROM snapshots"):
        if held != snapshot_digest(entry, counts, state):
            yield f"the model after entry {entry} is damaged"


def _sequence(db: sqlite3.Connection) -> Iterator[str]:
    """Every number up to the newest entry is there once, but for those that were forgotten."""
    (present, different, newest) = db.execute(
        f"SELECT count(*), count(DISTINCT entry), coalesce(max(entry), 0) FROM ({_ENTRIES})"
    ).fetchone()
    newest = max(newest, History("", db).newest_snapshot())
    counted = db.execute("SELECT value FROM counters WHERE name = 'removed'").fetchone()
    removed = 0 if counted is None else counted[0]
    if present != different:
        yield f"{present - different} entries are there twice"
    if different + removed != newest:
        yield f"{newest - different - removed} of {newest} entries are missing, beside {removed} that were forgotten"
    for table in ("shown", "kept", "rewards", "stages"):
        lost = f"SELECT count(*) FROM {table} WHERE decision NOT IN (SELECT entry FROM decisions)"
        (count,) = db.execute(lost).fetchone()
        if count:
            yield f"{table}: the decisions of {count} rows are missing"


def _replayed(db: sqlite3.Connection, path: Path) -> Iterator[str]:
    history = History(path, db)
    try:
        (text,) = db.execute("SELECT text FROM settings").fetchone()
        replica = Replica(stored(text, {}), history.snapshot())
        replica.catch_up(history, verify=True)
    except ConfigError as error:
        yield f"the description of the agent cannot be read: {error}"


def _states(db: sqlite3.Connection) -> Iterator[str]:
    rows: list[tuple[Any, Any]] = db.execute("SELECT part, state FROM snapshot").fetchall()
    for part, state in rows:
        try:
            from_bytes(state)
        except Exception as error:  # whatever damaged bytes may lead to
            yield f"the saved state of {part!r} is damaged: {error}"
