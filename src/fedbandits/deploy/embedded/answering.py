"""Letters of a server: each is answered once, however often it comes."""

from __future__ import annotations

from collections.abc import Sequence

from fedbandits.deploy.embedded.acknowledgements import LAST_TURN, Verdict, settled_by, written
from fedbandits.deploy.embedded.inputs import check_text
from fedbandits.deploy.embedded.pondering import Pondered
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import ConflictError, InputError
from fedbandits.deploy.storage.journal import Journal


class Answering:
    """Answers what comes at one moment, `now`, within a transaction that writes to `journal`."""

    def __init__(self, journal: Journal, replica: Replica, now: float) -> None:
        self._journal = journal
        self._replica = replica
        self._now = now

    def answer(
        self,
        letter: bytes,
        conversation: str,
        turn: int,
        verdicts: Sequence[Verdict] | None,
        pondered: Pondered | None = None,
    ) -> bytes | None:
        """The reply to a letter; see `Agent.answer`. What it tells about earlier replies, and what it asks for, are
        taken in together or not at all. What was `pondered` about it before is used if it still stands.
        """
        known = self._journal.reply_to(conversation, turn, letter)
        if known is not None:
            if not known.same:
                raise ConflictError(f"turn {turn} of conversation {conversation!r} was another letter")
            if not known.kept:
                raise ConflictError(f"turn {turn} of conversation {conversation!r} was answered long ago")
            return known.reply
        replica, journal = self._replica, self._journal
        request = replica.read(letter)
        settled = settled_by(verdicts or (), journal)
        found = pondered.found if pondered is not None and not settled and pondered.stands(replica) else None
        reply = replica.answer(request, self._now, settled=settled, acknowledged=verdicts is not None, found=found)
        entry = replica.counts.entry
        pending = replica.awaits_verdict(entry)
        journal.answer(
            entry, self._now, conversation, turn, letter, reply, hands_over=pending, verdicts=written(settled)
        )
        for told in settled:
            journal.settle(told.entry, bool(told.accepted))
        return reply


def check_turn(conversation: str, turn: int) -> None:
    """Raise `InputError` for what cannot be the number of a letter."""
    check_text("the name of a conversation", conversation)
    if not 0 <= turn <= LAST_TURN:
        raise InputError(f"turns are counted from 0 (got {turn})")
