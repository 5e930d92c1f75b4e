"""Logs that cannot be flooded: of lines of one kind, few are written, and the rest are counted."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_KINDS = 200


@dataclass(slots=True)
class _Kind:
    since: float
    written: int = 0
    left_out: int = 0


class Sparing(logging.Filter):
    """Lets `most` lines of a kind through in every `seconds`; the first one after that tells how many were left out.

    Lines are of one kind if they come from one call: what is compared is the text before anything is filled in.

    >>> log, now = logging.getLogger("sparing"), [0.0]
    >>> sparing = Sparing(most=1, seconds=60.0, clock=lambda: now[0])
    >>> def told(*args):
    ...     record = log.makeRecord("sparing", logging.INFO, "", 0, "refused %s", args, None)
    ...     return sparing.filter(record) and record.getMessage()
    >>> told("a"), told("b"), told("c")
    ('refused a', False, False)
    >>> now[0] = 61.0
    >>> told("d")
    'refused d (and 2 more like it in the last 61 seconds)'
    """

    def __init__(self, most: int = 5, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        now, name = self._clock(), str(record.msg)
        kind = self._kinds.pop(name, None) or _Kind(now)
        self._kinds[name] = kind  # the last used last, so that the first is the one to forget
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        if now - kind.since >= self._seconds:
            if kind.left_out:
                more = f"(and {kind.left_out} more like it in the last {now - kind.since:.0f} seconds)"
                record.msg, record.args = f"{record.getMessage()} {more}", ()
            self._kinds[name] = kind = _Kind(now)
        if kind.written >= self._most:
            kind.left_out += 1
            return False
        kind.written += 1
        return True
