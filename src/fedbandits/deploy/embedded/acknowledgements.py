"""What became of what an agent handed over: taken in by the server, or declined, and then the agent's own again.

After an answer with increments the agent counts what it sent as handed over. A server may not have taken it in: it was
beyond what is believed, it did not fit the others', or the server was gone. It says so with one of its next letters, by
a `Verdict`, and the agent takes back what was declined (`Population.restore`) before it answers that letter, in the
same entry of its file. Until then it keeps its reply.

Each hand-over gets one verdict. The same one again changes nothing, another one is refused with the letter that brings
it; a verdict about what this agent has not handed over means nothing to it, as after an agent has taken the place of
another that was lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedbandits.deploy.embedded.inputs import check_text
from fedbandits.deploy.errors import ConflictError, InputError, LetterError
from fedbandits.deploy.storage.entries import HandOver
from fedbandits.deploy.storage.history import History

LAST_TURN = 2**63 - 1
"""The largest number of a turn."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the answer to a turn of a conversation was taken in."""

    conversation: str
    turn: int
    accepted: bool


def settled_by(verdicts: Sequence[Verdict], history: History) -> list[HandOver]:
    """What a letter tells that its agent did not know: hand-overs with what has become of them, oldest first.

    Raises `ConflictError` where it contradicts what was told before, `LetterError` where it cannot be read.
    """
    settled: dict[int, HandOver] = {}
    for verdict in verdicts:
        try:
            check_text("the name of a conversation", verdict.conversation)
        except InputError as error:
            raise LetterError(f"a verdict cannot be read: {error}") from None
        if not 0 <= verdict.turn <= LAST_TURN:
            raise LetterError(f"a verdict is about turn {verdict.turn}; turns are counted from 0")
        found = history.hand_over(verdict.conversation, verdict.turn)
        if found is None:
            continue
        known = settled.get(found.entry, found).accepted
        if known is not None and known != verdict.accepted:
            raise ConflictError(
                f"the letter says that the answer to turn {verdict.turn} of conversation {verdict.conversation!r} was "
                f"{_in_words(verdict.accepted)}; it was said to be {_in_words(known)}"
            )
        if found.accepted is None:
            settled[found.entry] = replace(found, accepted=verdict.accepted)
    return [settled[entry] for entry in sorted(settled)]


def written(settled: Sequence[HandOver]) -> str | None:
    """What is kept in the entry of the letter that told: entries and whether they were accepted."""
    return json.dumps([[one.entry, int(bool(one.accepted))] for one in settled]) if settled else None


def _in_words(accepted: bool) -> str:
    return "taken in" if accepted else "declined"
