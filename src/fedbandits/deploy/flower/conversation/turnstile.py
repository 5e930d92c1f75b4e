"""One server at a time: two that write into one book would take each other's conversations for their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.storage.files import private

LOCK = "server.lock"
_LOOK_SECONDS = 0.2


def is_taken(directory: Path) -> bool:
    """Whether a server is within; True where that cannot be known."""
    try:
        with alone(directory, seconds=0.0):
            return False
    except (ConfigError, OSError):
        return True


@contextmanager
def alone(directory: Path, seconds: float = 30.0) -> Iterator[None]:
    """Be the only process within for this directory; the operating system lets the next one in when this one is gone.

    One that is on its way out is waited for; after `seconds` raises `ConfigError`. Where files cannot be locked
    (Windows), nobody is kept out.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(directory / LOCK, "ab", opener=private) as file:
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise ConfigError(
                        f"another server serves {directory}; stop its run first: flwr ls, flwr stop"
                    ) from None
                time.sleep(_LOOK_SECONDS)
        yield
