"""The tables of an agent's file, and how files of earlier formats come to have them.

    format 1    version 0.1.0
    format 2    `nonces`, and settings with facts
    format 3    who a decision was about, its score, its propensity and who chose it; the names of the arms shown; arms
                that are kept; places of named arms; imported logs; what became of replies that handed something over; a
                checksum of every row over all its columns
    format 4    `episodes` and `stages`

The columns of the newest one:

    settings    text; digest
    decisions   entry, at, tag, pick, arm, features of the chosen arm, who, score, propensity (NULL: unknown),
                explored (0 by the algorithm, 1 by chance, 2 by others); digest
    shown       decision, at, names (a JSON list, or NULL), arms; digest
    rewards     entry, decision, at, value; digest
    letters     entry, conversation, turn, at, handed_over (whether the reply hands over what is not to be lost),
                accepted (NULL: not known yet, 1: taken in, 0: declined), verdicts (JSON, or NULL), request, reply,
                a digest of each of these two that outlives it; digest of all others
    snapshots   entry, counts, state; digest
    nonces      entry, nonce; digest
    counters    name, value; digest
    kept        as shown, of decisions that were rewarded
    places      place, name, retired; digest
    imports     the file's digest, when, how many rows; digest
    episodes    the entry of the first decision, name, when the last decision was taken, how many there are, whether it
                was ended before it had all its stages; when it is over (else NULL), the entry of that, when, and how
                many of its decisions were learned; digest
    stages      decision, episode, which of its stages, from 0; digest
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from typing import Any

from fedbandits.deploy.errors import CorruptError
from fedbandits.deploy.storage.digests import digest, sha
from fedbandits.deploy.storage.schema import Schema, statements

_FIRST = """
CREATE TABLE settings (text TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE decisions (entry INTEGER PRIMARY KEY, at REAL NOT NULL, tag INTEGER NOT NULL, pick INTEGER NOT NULL,
                        arm TEXT, features BLOB NOT NULL);
CREATE TABLE shown (decision INTEGER PRIMARY KEY, digest INTEGER NOT NULL, arms BLOB NOT NULL);
CREATE TABLE rewards (entry INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE, at REAL NOT NULL,
                      value REAL NOT NULL, digest INTEGER NOT NULL);
CREATE TABLE letters (entry INTEGER PRIMARY KEY, conversation TEXT NOT NULL, turn INTEGER NOT NULL, at REAL NOT NULL,
                      request BLOB, request_digest BLOB NOT NULL, reply BLOB, reply_digest BLOB NOT NULL,
                      UNIQUE (conversation, turn));
CREATE TABLE snapshots (entry INTEGER PRIMARY KEY, books TEXT NOT NULL, state BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('expired', 0), ('forgotten', 0), ('late', 0)
"""
# sealing a file of format 1 made the table without making the rest of format 2
_SECOND = "CREATE TABLE IF NOT EXISTS nonces (entry INTEGER PRIMARY KEY, nonce BLOB NOT NULL, digest INTEGER NOT NULL)"

_THIRD = {
    "decisions": (
        "entry INTEGER PRIMARY KEY, at REAL NOT NULL, tag INTEGER NOT NULL, pick INTEGER NOT NULL, arm TEXT, "
        "features BLOB NOT NULL, who TEXT, score REAL, propensity REAL, explored INTEGER NOT NULL, "
        "digest INTEGER NOT NULL",
        "SELECT entry, at, tag, pick, arm, features, NULL, NULL, NULL, 0, "
        "digest(entry, at, tag, pick, arm, features, NULL, NULL, NULL, 0) FROM former",
    ),
    "shown": (
        "decision INTEGER PRIMARY KEY, at REAL NOT NULL, names TEXT, digest INTEGER NOT NULL, arms BLOB NOT NULL",
        "SELECT f.decision, d.at, NULL, digest(f.decision, d.at, NULL, f.arms), f.arms "
        "FROM former f JOIN decisions d ON d.entry = f.decision",
    ),
    "rewards": (
        "entry INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE, at REAL NOT NULL, value REAL NOT NULL, "
        "digest INTEGER NOT NULL",
        "SELECT entry, decision, at, value, digest(entry, decision, at, value) FROM former",
    ),
    "letters": (
        "entry INTEGER PRIMARY KEY, conversation TEXT NOT NULL, turn INTEGER NOT NULL, at REAL NOT NULL, "
        "handed_over INTEGER NOT NULL, accepted INTEGER, verdicts TEXT, request_digest BLOB NOT NULL, "
        "reply_digest BLOB NOT NULL, digest INTEGER NOT NULL, request BLOB, reply BLOB, UNIQUE (conversation, turn)",
        "SELECT entry, conversation, turn, at, 0, NULL, NULL, request_digest, reply_digest, "
        "digest(entry, conversation, turn, at, 0, NULL, NULL, request_digest, reply_digest), request, reply "
        "FROM former",
    ),
    "nonces": (
        "entry INTEGER PRIMARY KEY, nonce BLOB NOT NULL, digest INTEGER NOT NULL",
        "SELECT entry, nonce, digest(entry, nonce) FROM former",
    ),
    "counters": (
        "name TEXT PRIMARY KEY, value INTEGER NOT NULL, digest INTEGER NOT NULL",
        "SELECT name, value, digest(name, value) FROM former",
    ),
}
"""By table, its columns, and what they hold of the `former` one."""
_NEW = f"""
CREATE TABLE kept ({_THIRD["shown"][0]});
CREATE TABLE places (place INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, retired INTEGER NOT NULL,
                     digest INTEGER NOT NULL);
CREATE TABLE imports (content BLOB PRIMARY KEY, at REAL NOT NULL, rows INTEGER NOT NULL, digest INTEGER NOT NULL)
"""
_FOURTH = """
CREATE TABLE episodes (first INTEGER PRIMARY KEY, name TEXT NOT NULL, at REAL NOT NULL, stages INTEGER NOT NULL,
                       ended INTEGER NOT NULL, closed INTEGER UNIQUE, closed_at REAL, learned INTEGER,
                       digest INTEGER NOT NULL);
CREATE TABLE stages (decision INTEGER PRIMARY KEY, episode INTEGER NOT NULL, stage INTEGER NOT NULL,
                     digest INTEGER NOT NULL, UNIQUE (episode, stage));
CREATE INDEX episodes_name ON episodes (name);
CREATE INDEX episodes_open ON episodes (at) WHERE closed IS NULL
"""


def _third(db: sqlite3.Connection) -> None:
    _check_second(db)
    db.create_function("digest", -1, digest, deterministic=True)
    for table, (columns, select) in _THIRD.items():
        db.execute(f"ALTER TABLE {table} RENAME TO former")
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(f"INSERT INTO {table} {select}")
        db.execute("DROP TABLE former")
    statements(_NEW)(db)
    db.execute("CREATE INDEX shown_at ON shown (at)")  # expiry finds the oldest, in whatever order they were taken
    present = " + ".join(f"(SELECT count(*) FROM {table})" for table in ("decisions", "rewards", "letters"))
    newest = ", ".join(
        f"(SELECT coalesce(max(entry), 0) FROM {table})" for table in ("snapshots", "decisions", "rewards", "letters")
    )
    (removed,) = db.execute(f"SELECT max({newest}) - ({present})").fetchone()
    db.execute("INSERT INTO counters VALUES ('removed', ?, ?)", (removed, digest("removed", removed)))


def _check_second(db: sqlite3.Connection) -> None:
    """What has a checksum must not get a new one before the old one was looked at."""
    shown = (
        "SELECT s.decision, d.at, d.tag, d.pick, s.digest, s.arms "
        "FROM shown s LEFT JOIN decisions d ON d.entry = s.decision"
    )
    for *decision, held, arms in db.execute(shown):
        _demand(held == _crc("<qdqq", *decision, arms), decision[0])
    for *reward, held in db.execute("SELECT entry, decision, value, digest FROM rewards"):
        _demand(held == _crc("<qqd", *reward, b""), reward[0])
    for entry, nonce, held in db.execute("SELECT entry, nonce, digest FROM nonces"):
        _demand(held == _crc("<q", entry, nonce), entry)
    for part in ("request", "reply"):
        kept = f"SELECT entry, {part}, {part}_digest FROM letters WHERE {part} IS NOT NULL"
        for entry, content, held in db.execute(kept):
            _demand(isinstance(content, bytes) and held == sha(content), entry)


def _crc(layout: str, *values: Any) -> int | None:
    """The checksum of numbers and a last value of bytes, as format 2 had it; None if they are of other types."""
    try:
        return zlib.crc32(values[-1], zlib.crc32(struct.pack(layout, *values[:-1])))
    except (struct.error, TypeError):
        return None


def _demand(whole: bool, entry: int) -> None:
    if not whole:
        raise CorruptError(f"entry {entry} is damaged; restore the file from a backup")


AGENT = Schema(
    whose="an agent's",
    mark=0x66626167,  # "fbag"
    steps={0: statements(_FIRST), 1: statements(_SECOND), 2: _third, 3: statements(_FOURTH)},
)
"""Files of agents."""
