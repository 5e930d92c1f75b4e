"""What became of what agents have handed over."""

from __future__ import annotations

TABLES = """
CREATE TABLE verdicts (
    identity INTEGER NOT NULL, conversation TEXT NOT NULL, turn INTEGER NOT NULL, accepted INTEGER NOT NULL,
    PRIMARY KEY (identity, conversation, turn)) WITHOUT ROWID;
"""
