"""The server's log: one line for each record, whatever it says, in files that do not grow without end."""

from __future__ import annotations

import logging
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from fedbandits.deploy.storage.files import private
from fedbandits.deploy.text import shown

_LARGEST, _KEPT = 10_000_000, 3
_LONGEST = 2000


def log_to(path: Path) -> None:
    """Let the library's records go to the file `path`: Flower throws away what a ServerApp prints.

    A disk that is full costs records and nothing else.
    """
    handler = _PrivateFile(path, maxBytes=_LARGEST, backupCount=_KEPT, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("fedbandits")
    ours.setLevel(logging.INFO)
    ours.addHandler(handler)


class OneLine(logging.Formatter):
    """Records on a line each; lines of a traceback are set in, so that none of them can pass for a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The record's line, with what is not shown as itself escaped."""
        record.message = shown(record.message, _LONGEST)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        """The traceback, without local variables: they hold what agents have told."""
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join(f"    {shown(line, _LONGEST)}" for line in lines)


class _PrivateFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A record that cannot be written is lost; nobody reads what a ServerApp prints instead."""

    def _open(self) -> TextIOWrapper:
        return open(  # type: ignore[return-value]
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=private
        )
