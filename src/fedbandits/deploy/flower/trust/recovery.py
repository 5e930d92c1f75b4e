"""What becomes of a conversation that was spoilt: it is set apart, and the federation goes on without what did it.

The server is as it was before, and the conversation begins anew, under another name, with the record of what everybody
else has said (`inquest` finds whose replies are left out); agents are not asked twice for what they have said already.
What the guilty handed over is declined. Where nobody's absence explains it, or it was spoilt again and again, the
conversation is given up: everybody gets back what it handed over, and hands it over another time.

One thing cannot be taken back. Instructions that have gone out before a conversation was spoilt, as far as the server
would now say something else, have been heard by some; whoever was told a total is told another one soon, whoever was
told an increment keeps it. Since the server is looked at before each letter (`watching`), that takes a server that
raises after it has told its results.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from fedbandits.contract.wire import Wire, hand_overs
from fedbandits.deploy.flower.book.book import Book, Cut
from fedbandits.deploy.flower.book.quarantine import Spoken
from fedbandits.deploy.flower.book.verdicts import Turn
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.flower.trust.inquest import Finding, Inquest, Record
from fedbandits.deploy.flower.trust.inspection import Inspector
from fedbandits.deploy.flower.trust.past import Trust
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)
_ANEW = "~"
_MOST_ATTEMPTS = 5
"""How often a conversation begins anew before it is given up."""


class Recovery:
    """Sets the conversations in `book` apart that the server of `settings` cannot complete."""

    def __init__(
        self,
        settings: Settings,
        book: Book,
        inspector: Inspector,
        trust: Trust,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._book = book
        self._inspector = inspector
        self._trust = trust
        self._now = now
        self._hand_overs = hand_overs(settings.wire.utterances or ())

    def set_apart(self, error: Exception) -> None:
        """The conversation under way was spoilt: write it down, and leave in the book what can be taken up.

        All of it is one transaction: a server that is killed in between finds the conversation as it was.
        """
        cut = self._book.cut()
        if cut is None:  # before anybody was asked: nothing that was said in it can have done it
            with self._book.writing():
                self._book.quarantine.add(self._now(), "", 0, str(error), (), (), sure=False, state="declined")
            log.error("the server cannot begin to speak: %s", shown(error))
            return
        record = self._book.record()
        finding = Inquest(self._settings, self._inspector, self._book.parts(), cut, record).held()
        anew = bool(finding.guilty) and _attempts(cut.conversation) < _MOST_ATTEMPTS
        kept = finding.kept if anew else 0
        with self._book.writing():
            spoken = self._spoken(cut, record, finding)
            leaving = self._leaving(finding)
            number = self._book.quarantine.add(
                self._now(),
                cut.conversation,
                max(record, default=0),
                str(error),
                finding.guilty,
                spoken,
                sure=finding.sure,
                state="held" if leaving else "declined",
            )
            if anew:
                self._begin_anew(cut, record, finding, kept)
            else:
                self._book.undo()
            self._judge(spoken, finding, kept, leaving, str(error))
            for who in leaving:
                self._book.quarantine.suspend(who, self._now(), number)
        _tell(number, cut, finding, leaving, str(error), anew=anew)

    def _spoken(self, cut: Cut, record: Record, finding: Finding) -> list[Spoken]:
        return [
            Spoken(
                turn,
                who,
                who in finding.guilty,
                Letter(*(held.late.get(who) or (cut.conversation, turn)), finding.asked.get(turn, {}).get(who, b"")),
                reply,
            )
            for turn, held in record.items()
            for who, reply in held.replies.items()
        ]

    def _leaving(self, finding: Finding) -> frozenset[int]:
        """Who of the guilty has spoilt so many that it is left out from now on."""
        if not finding.sure:
            return frozenset()
        since, strikes = self._now() - self._trust.forgiven_after, self._book.quarantine.strikes
        return frozenset(who for who in finding.guilty if strikes(who, since) + 1 >= self._trust.strikes)

    def _begin_anew(self, cut: Cut, record: Record, finding: Finding, kept: int) -> None:
        """Put a conversation in place of the one under way in which the guilty are not reached."""
        self._book.undo(kept)
        reachable = [who for who in cut.reachable if who not in finding.guilty]
        self._book.begin(_anew(cut.conversation), cut.callers, reachable)
        for turn in range(kept):
            spared = record[turn].without(finding.guilty, (cut.conversation, turn))
            self._book.conclude(
                turn,
                spared,
                handed={who: self._inspector.handed(reply) for who, reply in spared.replies.items()},
                taken={who: spared.late[who] for who in self._handing_over(spared.replies.items())},
            )

    def _judge(self, spoken: list[Spoken], finding: Finding, kept: int, leaving: frozenset[int], error: str) -> None:
        """What becomes of replies that are not taken up, as far as they hand something over."""
        lost = [said for said in spoken if said.guilty or said.turn >= kept]
        for said in lost:
            if said.guilty:
                self._book.reject(said.identity, said.letter, f"it has spoilt the conversation: {error}")
            for who in self._handing_over([(said.identity, said.reply)]):
                letter: Turn = (said.letter.conversation, said.letter.turn)
                judge = self._book.verdicts.hold if who in leaving else self._book.verdicts.decline
                judge({who: letter})

    def _handing_over(self, replies: Iterable[tuple[int, bytes]]) -> list[int]:
        return [who for who, reply in replies if Wire.decode(reply)[0] in self._hand_overs]


def _anew(conversation: str) -> str:
    name, _, _ = conversation.partition(_ANEW)
    return f"{name}{_ANEW}{_attempts(conversation) + 1}"


def _attempts(conversation: str) -> int:
    """How often a conversation has begun anew."""
    _, _, number = conversation.partition(_ANEW)
    return int(number) if number.isdecimal() else 0


def _tell(number: int, cut: Cut, finding: Finding, leaving: frozenset[int], error: str, *, anew: bool) -> None:
    who = ", ".join(map(str, sorted(finding.guilty)))
    by = f"; {'guilty' if finding.sure else 'suspected'}: agent {who}" if who else "; nobody's absence explains it"
    then = "it goes on without" if anew else "it is given up, nothing in it counts"
    log.error("conversation %s was spoilt: %s%s; %s (quarantine %d)", cut.conversation, shown(error), by, then, number)
    for identity in sorted(leaving):
        log.error("agent %d is left out until quarantine %d is dropped or retried", identity, number)
