"""Conversations that went wrong: kept apart with everything that was said, until an operator has looked at them."""

from __future__ import annotations

TABLES = """
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, conversation TEXT NOT NULL, turn INTEGER NOT NULL,
    error TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE quarantined (
    id INTEGER NOT NULL, turn INTEGER NOT NULL, identity INTEGER NOT NULL, guilty INTEGER NOT NULL,
    said_in TEXT NOT NULL, said_turn INTEGER NOT NULL, letter BLOB NOT NULL, reply BLOB NOT NULL,
    PRIMARY KEY (id, turn, identity)) WITHOUT ROWID;
CREATE TABLE suspended (identity INTEGER PRIMARY KEY, at REAL NOT NULL, why TEXT NOT NULL);
"""
