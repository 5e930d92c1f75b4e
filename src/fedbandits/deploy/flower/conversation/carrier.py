"""The carrier of a deployed federation: letters by post, answers that are inspected, every turn written down."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire, WireError, hand_overs
from fedbandits.deploy.flower.book.book import Book, TurnRecord
from fedbandits.deploy.flower.post import Answer, Letter, Post, StoppedError
from fedbandits.deploy.flower.trust.inspection import DeclinedError, Inspector, RejectedError
from fedbandits.deploy.flower.trust.past import Past, Pasts
from fedbandits.deploy.text import shown
from fedbandits.transport.carriers import Carrier

log = logging.getLogger(__name__)
_NOBODY: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long the server waits, in seconds."""

    ring: float = 10.0
    """For agents to say whether they call."""
    answer: float = 30.0
    """For answers to a letter, before those who are silent are left out."""
    everybody: float | None = None
    """The same, for algorithms that need everybody; None: until all have answered."""
    repeat: float = 10.0
    """Before a letter that was not answered is sent again."""


class _NobodyAnsweredError(Exception):
    """A question was put to everybody who can be reached, and nobody answered."""


class PostCarrier(Carrier):
    """Carries one conversation at a time; see `expected_answers` for the rules that keep it consistent over a bad
    network.

    The ledger counts every letter and every answer once, as a simulation does, whatever had to be sent again;
    `resent` counts those repetitions. Turns that the book knows already, from a server that was killed, are not carried
    again: what they brought is read from it.
    """

    def __init__(
        self,
        post: Post,
        book: Book,
        inspector: Inspector,
        pasts: Pasts,
        ledger: Ledger,
        wire: Wire,
        *,
        waits: bool,
        patience: Patience,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(ledger, wire)
        self._post = post
        self._book = book
        self._inspector = inspector
        self._pasts = pasts
        self._limit = patience.everybody if waits else patience.answer
        self._repeat = patience.repeat
        self._stopping = stopping
        self._conversation = ""
        self._turn = 0
        self._hand_overs = hand_overs(wire.utterances or ())
        self._starting: Callable[[], None] = lambda: None
        self.resent = 0
        """Letters that were sent more than once."""

    def open(self, conversation: str, reachable: IntArray, agents: int, starting: Callable[[], None]) -> None:
        """A conversation begins with those who are `reachable`; `starting` is called before its first letter."""
        self._conversation = conversation
        self._turn = 0
        self._starting = starting
        self.reachable = np.zeros(agents, dtype=np.bool_)
        self.reachable[reachable] = True

    def carry(self, request: Message) -> Message:
        """Deliver `request` and return the replies that stood up to inspection.

        An instruction reaches all its addressees, at once or later; a question those who answered it in time.
        """
        if self._turn == 0:
            self._starting()
        try:
            return super().carry(request)
        except _NobodyAnsweredError:
            return Message(request.kind, _NOBODY)
        finally:
            self._turn += 1

    def _reaching(self, request: Message) -> Message:
        assert self.reachable is not None, "a conversation is opened before it is carried"
        known = self._book.turn(self._turn)
        if known is not None:
            heard = np.isin(request.who, known.asked)
        else:
            heard = self.reachable[request.who]
            for agent, late in self._book.owed().items():
                # a debtor hears nothing but the question that it owes an answer to
                for row in np.flatnonzero(request.who == agent):
                    asked = self.wire.encode(request, int(row), "down")
                    stands = late.answer is not None and self._inspector.still_answers(late.letter.content, asked)
                    heard[row] &= stands
        return request.of(heard)

    def _deliver(self, request: Message) -> Message | None:
        letters = self._letters(request)
        question = self._inspector.is_question(next(iter(letters.values())).content)
        record = self._book.turn(self._turn) or self._exchange(letters, question=question)
        silent = letters.keys() - set(record.reached)
        if not question:
            # whoever has not acknowledged this yet must not hear anything else before it does
            silent |= self._book.undelivered().keys() & letters.keys()
        assert self.reachable is not None
        self.reachable[sorted(silent)] = False
        if not question:
            return None
        if not record.replies:
            raise _NobodyAnsweredError
        return self._gathered(record)

    def _exchange(self, letters: Mapping[int, Letter], *, question: bool) -> TurnRecord:
        """One turn by post; over when all have answered or the patience is, and written down then."""
        owed = {who: debt for who, debt in self._book.owed().items() if who in letters}
        late = {who: debt.answer for who, debt in owed.items() if debt.answer is not None}
        turn = _Turn(replies=dict(late))
        self._ask({who: letter for who, letter in letters.items() if who not in late}, turn, question=question)
        silent = {who: letters[who] for who in letters if who not in turn.letters and who not in late}
        for who in silent:
            log.warning("agent %d did not answer turn %d of %s in time", who, self._turn, self._conversation)
        if question:
            self._reject_odd_ones(letters, turn)
            reached = tuple(who for who in letters if who in turn.replies)
            said_in = {who: (owed[who].letter.conversation, owed[who].letter.turn) for who in late}
            here = (self._conversation, self._turn)
            record = TurnRecord(
                tuple(letters), reached, turn.replies, {who: said for who, said in said_in.items() if who in reached}
            )
            self._book.conclude(
                self._turn,
                record,
                owed=silent,
                settled=list(late),
                letters=turn.letters,
                handed={who: self._inspector.handed(turn.replies[who]) for who in reached},
                taken={
                    who: said_in.get(who, here)
                    for who in reached
                    if who not in turn.ours and self._hands_over(turn.replies[who])
                },
                declined={who: said_in.get(who, here) for who in turn.declined},
            )
        else:
            record = TurnRecord(tuple(letters), tuple(who for who in letters if who not in turn.rejected), {})
            self._book.conclude(self._turn, record, undelivered=silent, letters=turn.letters)
        return record

    def _letters(self, request: Message) -> dict[int, Letter]:
        letters = {}
        for row, agent in enumerate(request.who):
            content = self.wire.encode(request, row, "down")
            if request.arrays and len(content) != self.wire.size(request, "down", row).bytes:
                raise WireError(f"message {request.kind!r} was metered wrongly")
            letters[int(agent)] = Letter(self._conversation, self._turn, content)
        return letters

    def _ask(self, letters: Mapping[int, Letter], turn: _Turn, *, question: bool) -> None:
        pending = dict(letters)
        began = time.monotonic()
        while pending:
            if self._stopping():
                raise StoppedError
            left = np.inf if self._limit is None else self._limit - (time.monotonic() - began)
            if left <= 0:
                return
            enclosed = self._book.verdicts.enclosed(pending)
            for who, answer in self._post.ask(enclosed, min(self._repeat, left)).items():
                letter = pending.pop(who)
                turn.letters[who] = answer.letters
                if answer.ours:
                    turn.ours.add(who)
                try:
                    content = inspected(answer, letter, self._inspector, self._pasts.of(who), question=question)
                except DeclinedError as error:
                    turn.rejected.add(who)
                    turn.declined.add(who)
                    log.info("agent %d declines turn %d of %s: %s", who, self._turn, self._conversation, error)
                except RejectedError as error:
                    self._reject(who, letter, str(error), turn, declined=answer.refused is None)
                else:
                    if content is not None:
                        turn.replies[who] = content
            self.resent += len(pending)

    def _reject_odd_ones(self, letters: Mapping[int, Letter], turn: _Turn) -> None:
        """Where neither problem nor question say how long answers are, the most common lengths are right: others cannot
        be taken in together with them.
        """
        lengths = {who: tuple(sorted(self._inspector.free_lengths(turn.replies[who]).items())) for who in turn.replies}
        if len(set(lengths.values())) <= 1:
            return
        ((common, _),) = Counter(lengths[who] for who in letters if who in lengths).most_common(1)
        for who in [who for who, held in lengths.items() if held != common]:
            del turn.replies[who]
            self._reject(who, letters[who], f"the reply has {dict(lengths[who])}, others have {dict(common)}", turn)

    def _hands_over(self, reply: bytes) -> bool:
        return Wire.decode(reply)[0] in self._hand_overs

    def _reject(self, who: int, letter: Letter, why: str, turn: _Turn, *, declined: bool = True) -> None:
        turn.rejected.add(who)
        if declined:
            turn.declined.add(who)
        log.warning("agent %d: turn %d of %s rejected: %s", who, self._turn, self._conversation, shown(why))
        self._book.reject(who, letter, why, "reply" if declined else "agent")

    def _gathered(self, record: TurnRecord) -> Message:
        read = [Wire.decode(record.replies[who]) for who in record.reached]
        who = np.array(record.reached, dtype=np.int64)
        return self.wire.gathered(read[0][0], who, [arrays for _, arrays in read], "up")


@dataclass(slots=True)
class _Turn:
    """What a turn has brought so far."""

    replies: dict[int, bytes]
    letters: dict[int, int] = field(default_factory=dict)
    """Of everybody who was heard: how many it has answered in all."""
    rejected: set[int] = field(default_factory=set)
    declined: set[int] = field(default_factory=set)
    """Of the rejected, those who have answered, if only that they will not: what they handed over is theirs again."""
    ours: set[int] = field(default_factory=set)
    """Whose answers were made here: nobody has to be told what becomes of them."""


def inspected(answer: Answer, letter: Letter, inspector: Inspector, past: Past, *, question: bool) -> bytes | None:
    """The content of an answer that may be let in, by an agent with this `past`; raises `RejectedError`."""
    if answer.refused is not None:
        raise RejectedError(f"the agent refused it: {answer.refused}")
    if answer.ours:
        return answer.content
    if question:
        if answer.content is None:
            if inspector.may_decline(letter.content):
                raise DeclinedError(
                    "its budget of privacy allows no more answers, or none about a point beyond the parameter's bound"
                )
            raise RejectedError("a question was answered with nothing")
        inspector.read(answer.content, letter.content, past)
    elif answer.content is not None:
        raise RejectedError("an instruction was answered, where nothing was to be said")
    return answer.content
