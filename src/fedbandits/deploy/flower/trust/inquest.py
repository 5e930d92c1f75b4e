"""Whose reply has spoilt a conversation: found by holding it again from its record, without some of those who spoke.

The server is made anew from what was saved, and hears the recorded replies of some, as if the others had not been
reached. Those whose numbers are largest are let in last: whoever cannot be let in without the conversation being spoilt
again is guilty. That takes at most 2 n trials for n senders and about k log n for k guilty ones, and finds several that
spoil it together.

A reply answers a question. Where somebody is left out, the server may ask others something else than it did, and what
they said is of no use from there on: the trial is `open` at that turn, and nobody knows how it would have gone on. Who
is left over then is a suspect, not convicted (`Finding.sure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedbandits.contract.arrays import IntArray, State
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire, WireError
from fedbandits.deploy.flower.book.book import Cut, TurnRecord
from fedbandits.deploy.flower.serving import Serving
from fedbandits.deploy.flower.trust.inspection import Inspector
from fedbandits.deploy.flower.trust.watching import SpoiltError, Watched, largest
from fedbandits.deploy.settings import Settings
from fedbandits.transport.carriers import Carrier, hold

_NOBODY: IntArray = np.empty(0, dtype=np.int64)
Record = Mapping[int, TurnRecord]
"""What the turns of a conversation brought, by number."""
Asked = Mapping[int, Mapping[int, bytes]]
"""What was asked in each turn, by agent."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a conversation went that was held again: how many of its turns are `over`, and why it could not go on from
    there; None if it could, was at its end, or went another way than the record.
    """

    spoilt: str | None
    over: int
    asked: Asked


@dataclass(frozen=True, slots=True)
class Finding:
    """Without the `guilty` the first `kept` turns of the record can be taken up, and the conversation goes on from
    there. None are guilty where nobody's absence explains what happened.
    """

    guilty: frozenset[int]
    kept: int
    sure: bool
    """Whether without them the conversation gets beyond the turn in which it was spoilt."""
    asked: Asked = field(default_factory=dict)


class Inquest:
    """Into one conversation of the server of `settings`, which was as it is `saved` when that began."""

    def __init__(
        self, settings: Settings, inspector: Inspector, saved: Mapping[str, State], cut: Cut, record: Record
    ) -> None:
        self._settings = settings
        self._inspector = inspector
        self._saved = saved
        self._cut = cut
        self._record = record

    def held(self) -> Finding:
        """Who is guilty."""
        whole = self._trial(frozenset(), None)
        nobody = Finding(frozenset(), 0, False, whole.asked)
        senders = self._senders()
        everybody = frozenset(senders)
        if whole.spoilt is None or not senders or self._trial(everybody, whole.asked).spoilt is not None:
            return nobody
        guilty = everybody - self._harmless(senders, frozenset(), everybody, whole.asked)
        last = self._trial(guilty, whole.asked)
        if last.spoilt is not None:  # what it draws or measures differs from time to time
            return nobody
        return Finding(guilty, last.over, last.over >= whole.over, whole.asked)

    def _harmless(
        self, group: list[int], kept: frozenset[int], everybody: frozenset[int], asked: Asked
    ) -> frozenset[int]:
        """`kept`, and whoever of `group`, ordered by the size of what they sent, can be let in beside them."""
        if self._trial(everybody - kept - set(group), asked).spoilt is None:
            return kept | set(group)
        if len(group) == 1:
            return kept
        half = len(group) // 2
        kept = self._harmless(group[:half], kept, everybody, asked)
        return self._harmless(group[half:], kept, everybody, asked)

    def _senders(self) -> list[int]:
        """Everybody of whom there is a reply, with the largest numbers last."""
        sizes: dict[int, float] = {}
        for turn in self._record.values():
            for who, reply in turn.replies.items():
                sizes[who] = max(sizes.get(who, 0.0), largest(Wire.decode(reply)[1]))
        return sorted(sizes, key=lambda who: (sizes[who], who))

    def _trial(self, without: frozenset[int], asked: Asked | None) -> Trial:
        serving = Serving(self._settings, self._saved)
        serving.begin(self._cut.conversation)
        carrier = _Rehearsal(self._settings.wire, self._inspector, self._record, without, asked)
        callers = np.array(sorted(self._cut.callers), dtype=np.int64)
        try:
            with np.errstate(all="ignore"):
                hold(Watched(serving.server, self._settings.wire), callers, carrier)
        except _OpenError:
            return Trial(None, carrier.turn, carrier.asked)
        except (SpoiltError, WireError) as error:
            return Trial(str(error), carrier.turn, carrier.asked)
        return Trial(None, carrier.turn, carrier.asked)


class _OpenError(Exception):
    """From here on the record says nothing."""


class _NobodyAnsweredError(Exception):
    """Of those who are asked nobody is let in."""


class _Rehearsal(Carrier):
    """Carries nothing: replies are those of the record, of all but those `without` whom it is held."""

    def __init__(
        self, wire: Wire, inspector: Inspector, record: Record, without: frozenset[int], before: Asked | None
    ) -> None:
        super().__init__(Ledger(), wire)
        self._inspector = inspector
        self._record = record
        self._without = without
        self._before = before
        self.turn = 0
        self.asked: dict[int, dict[int, bytes]] = {}

    def carry(self, request: Message) -> Message:
        """See `Carrier`."""
        try:
            reply = super().carry(request)
        except _NobodyAnsweredError:
            reply = Message(request.kind, _NOBODY)
        self.turn += 1
        return reply

    def _reaching(self, request: Message) -> Message:
        known = self._record.get(self.turn)
        if known is None:
            raise _OpenError
        asked = {int(who): self.wire.encode(request, row, "down") for row, who in enumerate(request.who)}
        if self._before is not None:
            self._compare(asked, self._before[self.turn])
        self.asked[self.turn] = asked
        return request.of(np.isin(request.who, [who for who in known.asked if who not in self._without]))

    def _compare(self, asked: Mapping[int, bytes], before: Mapping[int, bytes]) -> None:
        """Raise `_OpenError` unless what was answered then is an answer to what is asked now."""
        now, then = asked.keys() - self._without, before.keys() - self._without
        if now != then:
            raise _OpenError
        for who in now:
            if asked[who] != before[who] and not self._inspector.still_answers(before[who], asked[who]):
                raise _OpenError

    def _deliver(self, request: Message) -> Message | None:
        letter = self.asked[self.turn][int(request.who[0])]
        if not self._inspector.is_question(letter):
            return None
        known = self._record[self.turn]
        sent = [who for who in known.reached if who in known.replies and who not in self._without]
        if not sent:
            raise _NobodyAnsweredError
        read = [Wire.decode(known.replies[who]) for who in sent]
        return self.wire.gathered(read[0][0], np.array(sent, dtype=np.int64), [arrays for _, arrays in read], "up")
