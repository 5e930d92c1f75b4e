"""The book of a server that has one, for commands that look into it or change something in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.errors import translated
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK


@contextmanager
def book_in(directory: Path, *, read_only: bool = False) -> Iterator[Book]:
    """The book in a server's directory; `read_only` promises to change nothing.

    Raises `ConfigError` if there is none or it is somebody else's, and `StorageError` if it is damaged or cannot be
    used now: a line each.
    """
    path = directory / BOOK
    if not path.exists():
        raise ConfigError(f"{directory} holds no {BOOK}: no server has begun to serve there")
    with translated(path), Book(path, read_only=read_only) as book:
        yield book
