"""The server of a deployed federation: rings, listens for calls, gives the algorithm's server the floor.

Guarantees, whatever is killed and whenever:

- An agent takes in every letter at most once, and its letters in the order in which they were written.
- A conversation that was cut by the end of the server is continued where it was cut, under its own id: what had been
  handed over is not lost, nor counted twice.
- What an agent hands over while the server gives up on it is kept and taken in later.
- What an agent hands over and the server does not take in is the agent's again: its next letters tell it so.
- Decisions never wait: agents go on by themselves, on what they know.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Wire, WireError, hand_overs
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.carrier import Patience, PostCarrier, inspected
from fedbandits.deploy.flower.conversation.expelling import StandIns
from fedbandits.deploy.flower.post import Answer, Letter, Post, Presence
from fedbandits.deploy.flower.serving import Serving
from fedbandits.deploy.flower.trust.inspection import DeclinedError, Inspector, RejectedError
from fedbandits.deploy.flower.trust.past import Pasts, Trust
from fedbandits.deploy.flower.trust.recovery import Recovery
from fedbandits.deploy.flower.trust.watching import SpoiltError, Watched
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.text import shown
from fedbandits.transport.carriers import hold

log = logging.getLogger(__name__)


class Coordinator:
    """Drives the server of `settings.algorithm` over `post`, and keeps its state in `book`."""

    def __init__(
        self,
        settings: Settings,
        post: Post,
        book: Book,
        patience: Patience | None = None,
        stopping: Callable[[], bool] = lambda: False,
        trust: Trust | None = None,
    ) -> None:
        algorithm, problem = settings.algorithm, settings.problem
        self.ledger = Ledger()
        self._settings = settings
        self._post = StandIns(post, settings, book.expelled, book.contributions)
        self._book = book
        self._patience = patience or Patience()
        self._needs_everybody = algorithm.about.waits
        self._keeps_late = hand_overs(algorithm.about.says)
        self._trust = trust or Trust()
        self._inspector = Inspector(algorithm, problem, settings.wire)
        self._pasts = Pasts(book, problem.horizon, self._trust.pace)
        self._carrier = PostCarrier(
            self._post,
            book,
            self._inspector,
            self._pasts,
            self.ledger,
            settings.wire,
            waits=self._needs_everybody,
            patience=self._patience,
            stopping=stopping,
        )
        self._recovery = Recovery(settings, book, self._inspector, self._trust)
        self._era = secrets.token_hex(8)
        self._held = 0
        self._restore()

    def step(self) -> bool:
        """Ring once and give the server the floor; whether it said anything."""
        present = self._post.ring(self._patience.ring)
        expelled = self._book.expelled.all().keys()
        self._book.rang(present.keys() - expelled, time.time())
        self._acknowledge(present)
        if self._resume():
            return True
        reachable = self._tidy(present.keys() - (self._book.quarantine.suspended().keys() - expelled))
        late = self._book.owed().keys() & reachable
        calling = {who for who, presence in present.items() if presence.calling} & reachable
        if self._post.retracting():  # everybody is to know
            calling = set(reachable)
        if self._needs_everybody and len(reachable) < self._settings.agents:
            if calling:
                log.info(
                    "%d agents call; the algorithm needs all %d, %d can be reached",
                    len(calling),
                    self._settings.agents,
                    len(reachable),
                )
            return False
        self._held += 1
        return self._hold(f"{self._era}-{self._held}", _indices(calling | late), _indices(reachable), begun=False)

    def _acknowledge(self, present: Mapping[int, Presence]) -> None:
        """Forget verdicts that have arrived, and have handed over again what this book knows nothing of."""
        told = {who: presence.unacknowledged for who, presence in present.items()}
        for who, lost in self._book.acknowledged(told).items():
            log.warning(
                "agent %d has handed over %s, of which this book knows nothing (is it from a backup?): once more",
                who,
                ", ".join(f"turn {turn} of {conversation}" for conversation, turn in lost),
            )

    def _resume(self) -> bool:
        """Continue the conversation that was cut, if one was."""
        cut = self._book.cut()
        if cut is None:
            return False
        self._restore()
        log.warning("continuing conversation %s, which was cut", cut.conversation)
        return self._hold(cut.conversation, _indices(cut.callers), _indices(cut.reachable), begun=True)

    def recover(self) -> None:
        """Forget what a step that failed has left in memory: the book alone says where to go on."""
        self._restore()

    def _restore(self) -> None:
        """Become the server that the last completed conversation left."""
        saved = self._book.parts()
        self._serving = Serving(self._settings, saved)
        if not self._serving.parts().keys() <= saved.keys():
            # at once: a conversation that is cut has to be continued with the same draws
            self._book.save(**self._serving.parts())
        self.ledger = self._carrier.ledger = self._book.ledger()

    @property
    def server(self) -> Server:
        """The algorithm's server, as it is now."""
        return self._serving.server

    def _hold(self, conversation: str, callers: IntArray, reachable: IntArray, *, begun: bool) -> bool:
        def begin() -> None:
            if not begun:
                self._book.begin(conversation, callers.tolist(), reachable.tolist())

        before, began, resent = int(self.ledger.conversations), time.monotonic(), self._carrier.resent
        self._serving.begin(conversation)
        self._carrier.open(conversation, reachable, self._settings.agents, begin)
        try:
            hold(Watched(self.server, self._settings.wire), callers, self._carrier)
        except (SpoiltError, WireError) as error:
            self._recovery.set_apart(error)
            self._restore()
            return self._resume() or begun
        self._book.finish(ledger=self.ledger.state(), **self._serving.parts())
        spoke = int(self.ledger.conversations) > before
        if spoke:
            seconds = time.monotonic() - began
            self._book.spoke("resumed" if begun else "completed", seconds, self._carrier.resent - resent)
            log.info("conversation %s: %d callers, %d reachable", conversation, len(callers), len(reachable))
        return spoke

    def _tidy(self, present: set[int]) -> set[int]:
        """Deliver what was left undelivered and ask again what was left unanswered; who can be reached afterwards."""
        undelivered = self._book.undelivered()
        while waiting := {who: letters[0] for who, letters in undelivered.items() if who in present and letters}:
            answers = self._post.ask(self._book.verdicts.enclosed(waiting), self._patience.repeat)
            present -= waiting.keys() - answers.keys()
            for who, answer in answers.items():
                letter = undelivered[who].pop(0)
                self._inspected(who, answer, letter, question=False)
                self._book.delivered(who, letter)
        owed = {who: late.letter for who, late in self._book.owed().items() if late.answer is None and who in present}
        answers = self._post.ask(self._book.verdicts.enclosed(owed), self._patience.repeat) if owed else {}
        present -= owed.keys() - answers.keys()
        for who, answer in answers.items():
            content = self._inspected(who, answer, owed[who], question=True)
            if content is not None and Wire.decode(content)[0] in self._keeps_late:
                self._book.hold(who, content)
            else:
                self._book.drop(who, declined=owed[who] if content is None and answer.refused is None else None)
        return present

    def _inspected(self, who: int, answer: Answer, letter: Letter, *, question: bool) -> bytes | None:
        try:
            return inspected(answer, letter, self._inspector, self._pasts.of(who), question=question)
        except DeclinedError as error:
            log.info("agent %d declines turn %d of %s: %s", who, letter.turn, letter.conversation, error)
            return None
        except RejectedError as error:
            log.warning("agent %d: turn %d of %s rejected: %s", who, letter.turn, letter.conversation, shown(error))
            self._book.reject(who, letter, str(error), "reply" if answer.refused is None else "agent")
            return None


def _indices(identities: Iterable[int]) -> IntArray:
    return np.array(sorted(identities), dtype=np.int64)
