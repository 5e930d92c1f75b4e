"""The files in a server's directory."""

from __future__ import annotations

SETTINGS, BOOK, LOG = "federation.json", "server.db", "server.log"
"""What the agents were made with, the book, and what the server has to say."""
