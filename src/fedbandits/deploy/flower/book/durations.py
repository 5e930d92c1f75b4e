"""How conversations ended, and how long they took: a histogram that goes on when the server is started again."""

from __future__ import annotations

import math
from typing import Literal

from fedbandits.deploy.flower.book.tallies import Tallies

Outcome = Literal["completed", "resumed"]
"""Completed in one go, or after the server was killed or cut off in the middle; see `quarantine` for the others."""
OUTCOMES: tuple[Outcome, ...] = ("completed", "resumed")
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, math.inf)
_OUTCOME, _WITHIN, _SUM, _RESENT = "conversations", "conversation_seconds", "conversation_seconds_sum", "resent"


class Durations:
    """Counts among the `tallies` of a book; whoever writes is within a transaction of the book."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies

    def ended(self, outcome: Outcome, seconds: float, resent: int) -> None:
        """A conversation has ended `seconds` after this server began, or went on with, it."""
        self._tallies.add(_OUTCOME, outcome)
        self._tallies.add(_WITHIN, f"{next(bound for bound in BUCKETS if seconds <= bound):g}")
        self._tallies.add(_SUM, amount=max(0.0, seconds))
        self._tallies.add(_RESENT, amount=resent)

    def outcomes(self) -> dict[Outcome, int]:
        """How many conversations ended in which way."""
        counted = self._tallies.of(_OUTCOME)
        return {outcome: int(counted.get((outcome, None), 0)) for outcome in OUTCOMES}

    def within(self) -> list[tuple[float, int]]:
        """How many took no longer than each of `BUCKETS`."""
        counted = self._tallies.of(_WITHIN)
        total, found = 0, []
        for bound in BUCKETS:
            total += int(counted.get((f"{bound:g}", None), 0))
            found.append((bound, total))
        return found

    @property
    def seconds(self) -> float:
        """How long all of them took together."""
        return self._tallies.of(_SUM).get(("", None), 0.0)

    @property
    def resent(self) -> int:
        """How many letters had to be sent more than once in them."""
        return int(self._tallies.of(_RESENT).get(("", None), 0))
