"""Answers that take long: found while decisions go on.

Some letters ask for sums over everything an agent has observed, again and again, and answering changes nothing of it
(`Population.ponder`). Such an answer is found outside of all transactions, on what was known when the letter was read,
and written down like any other; neither threads nor processes that share the agent wait for it, and none of them does
it again: nothing follows from it that an agent would have to know. What it rests on changes by letters alone, so that
an answer is of use as long as there was none in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.contract.messages import Message
from fedbandits.deploy.embedded.replica import Replica, answering
from fedbandits.deploy.embedded.transactions import Transactions
from fedbandits.deploy.storage.journal import Journal


@dataclass(frozen=True, slots=True)
class Pondered:
    """An answer that was `found` by an agent that had answered so many `letters`."""

    found: Message
    letters: int

    def stands(self, replica: Replica) -> bool:
        """Whether it still is what the agent would answer."""
        return replica.counts.letters == self.letters


def ponder(
    transactions: Transactions, journal: Journal, letter: bytes, conversation: str, turn: int
) -> Pondered | None:
    """The answer to a letter that is new, if it can be found while others go on; None: it has to be found alone."""
    with transactions.reading() as replica:
        if journal.reply_to(conversation, turn, letter) is not None:
            return None
        request, letters = replica.read(letter), replica.counts.letters
        work = replica.population.ponder(request)
    if work is None:
        return None
    with answering(request):
        return Pondered(work(), letters)
