"""How a server is getting on, by its book: what `federation status` shows."""

from __future__ import annotations

import time
from typing import Any

from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.clocks import TOLERATED_SECONDS
from fedbandits.deploy.text import shown

SUPERVISED_SECONDS = 30.0
"""How long ago a supervisor may have looked last to be taken for alive."""


def server_status(book: Book) -> dict[str, Any]:
    """Facts by name, for people and programs."""
    ledger = book.ledger()
    rejections = book.rejections()
    return {
        "seconds_since_ring": _since(book.fact("rang_at")),
        "seconds_since_conversation": _since(book.fact("spoke_at")),
        "present": int(book.fact("present")),
        "known": sorted(book.bound()),
        "conversations": int(ledger.conversations),
        "messages": {"up": ledger.up.messages, "down": ledger.down.messages},
        "bytes": {"up": ledger.up.bytes, "down": ledger.down.bytes},
        "resent": int(book.fact("resent")),
        "underway": None if (cut := book.cut()) is None else cut.conversation,
        "undelivered": {f"agent {who}": len(letters) for who, letters in book.undelivered().items()},
        "owing": sorted(book.owed()),
        "rejected": sum(book.rejection_counts().values()),
        "last_rejected": None if not rejections else f"agent {rejections[-1].identity}: {rejections[-1].why}",
        "quarantined": book.troubles.by_state(),
        "suspended": sorted(book.quarantine.suspended()),
        "clock_offset_seconds": {
            f"agent {who}": round(offset, 1)
            for who, offset in book.clocks.all().items()
            if abs(offset) > TOLERATED_SECONDS
        },
        "supervised": 0 <= time.time() - book.fact("supervised_at") < SUPERVISED_SECONDS,
        "restarts": int(book.fact("restarts")),
        "last_end": None if (end := book.words("last_end")) is None else shown(end),
    }


def _since(moment: float) -> float | None:
    return round(time.time() - moment, 1) if moment else None
