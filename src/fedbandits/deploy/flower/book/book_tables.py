"""The tables of a server's book, and how books of earlier formats come to have them.

Format 1 was written by version 0.1.0. Format 2 knows what each agent has contributed, when it was seen, what became of
what it handed over, and conversations that went wrong. What agents contributed before their book had format 2 is not
known: `contributions_since` among the facts says so.
"""

from __future__ import annotations

import sqlite3
import time

from fedbandits.deploy.flower.book import (
    clocks,
    contributions,
    expelled,
    quarantine,
    rejections,
    sightings,
    tallies,
    verdicts,
)
from fedbandits.deploy.storage.schema import Schema, statements

_FIRST = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE nodes (identity INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, letters INTEGER NOT NULL DEFAULT 0);
CREATE TABLE snapshot (part TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE underway (conversation TEXT PRIMARY KEY, callers TEXT NOT NULL, reachable TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE outcomes (
    turn INTEGER NOT NULL, place INTEGER NOT NULL, identity INTEGER NOT NULL, reply BLOB,
    PRIMARY KEY (turn, identity)) WITHOUT ROWID;
CREATE TABLE turns (turn INTEGER PRIMARY KEY, asked TEXT NOT NULL);
CREATE TABLE undelivered (
    place INTEGER PRIMARY KEY, identity INTEGER NOT NULL, conversation TEXT NOT NULL, turn INTEGER NOT NULL,
    letter BLOB NOT NULL);
CREATE TABLE owed (
    identity INTEGER PRIMARY KEY, conversation TEXT NOT NULL, turn INTEGER NOT NULL, letter BLOB NOT NULL, answer BLOB);
CREATE TABLE rejected (
    at REAL NOT NULL, identity INTEGER, conversation TEXT, turn INTEGER, why TEXT NOT NULL);
"""
_SECOND = """
ALTER TABLE outcomes ADD COLUMN said_in TEXT;
ALTER TABLE outcomes ADD COLUMN said_turn INTEGER;
"""
"""The letter that a late reply answers; NULL where that is the turn itself."""


def _second(db: sqlite3.Connection) -> None:
    rooms = (contributions, sightings, verdicts, quarantine, tallies, rejections, clocks, expelled)
    for tables in (_SECOND, *(room.TABLES for room in rooms)):
        statements(tables)(db)
    if db.execute("SELECT 1 FROM snapshot").fetchone():  # the server has spoken before
        db.execute("INSERT OR REPLACE INTO facts VALUES ('contributions_since', ?)", (time.time(),))


SCHEMA = Schema("a server's book", mark=0x46426273, steps={0: statements(_FIRST), 1: _second}, marked_since=2)
