"""Processes that are killed, which start as quickly as a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO


def forked(work: Callable[[IO[str]], None]) -> tuple[int, IO[str]]:
    """A process that does some work, and what it writes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                work(out)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    return pid, os.fdopen(reading)
