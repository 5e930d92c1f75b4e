"""What becomes of agents that were expelled: agents without observations stand in for them.

An expelled agent is not let in any more, neither under its identity nor with its key. In its place the server hears an
agent that has seen nothing, so that nobody waits for it. And if the server is one of which all follows from sums
(`Server.retracts`), its stand-in hands over minus all that was taken in from it: the server's own addition takes it out
of the pool, exactly but for rounding, and what the server then says tells everybody.

All of this follows from two tables, the expelled and the contributions: what is left of an expelled agent's is handed
over with the opposite sign whenever a server asks, so that it does not matter who is killed and when, and nothing is
taken out twice. Where a server keeps what does not follow from sums, as the edges of a graph that are cut for good, the
stand-in hands over nothing, and what the agent has contributed stays.

The ledger counts what stand-ins hear and say as if it had crossed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedbandits.contract.messages import Message
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire, hand_overs
from fedbandits.deploy.flower.book.contributions import Contribution, Contributions
from fedbandits.deploy.flower.book.expelled import Expelled
from fedbandits.deploy.flower.post import Answer, Letter, Post, Presence
from fedbandits.deploy.flower.serving import Serving
from fedbandits.deploy.settings import Settings

_ALONE = np.zeros(1, dtype=np.int64)


def retracts(settings: Settings) -> bool:
    """Whether what an agent has contributed can be taken out again."""
    return Serving(settings, {}).server.retracts


def is_left(contribution: Contribution) -> bool:
    """Whether anything of a contribution is still in the pool."""
    return any(array.any() for array in contribution.sums.values())


class StandIns:
    """The post, in which expelled agents are represented by agents that have seen nothing."""

    def __init__(self, post: Post, settings: Settings, expelled: Expelled, contributions: Contributions) -> None:
        self._post = post
        self._settings = settings
        self._expelled = expelled
        self._contributions = contributions
        self._retracts = retracts(settings)
        self._hand_overs = hand_overs(settings.algorithm.about.says)
        self._asked: set[int] = set()

    def ring(self, seconds: float) -> Mapping[int, Presence]:
        """Everybody who answers and is let in, and the stand-ins of those who are not."""
        expelled = self._expelled.all()
        present = {who: presence for who, presence in self._post.ring(seconds).items() if who not in expelled}
        return present | {who: Presence(calling=self._calls(who)) for who in expelled}

    def ask(self, letters: Mapping[int, Letter], seconds: float) -> Mapping[int, Answer]:
        """See `Post`; stand-ins answer at once."""
        expelled = self._expelled.all()
        ours = {who: self._answer(who, letter) for who, letter in letters.items() if who in expelled}
        others = {who: letter for who, letter in letters.items() if who not in expelled}
        return ours | dict(self._post.ask(others, seconds) if others else {})

    def retracting(self) -> bool:
        """Whether anything is left to be taken out."""
        return any(self._is_left(who) for who in self._expelled.all())

    def _calls(self, who: int) -> bool:
        """While there is something to take out; and once, since somebody may wait for it to be heard."""
        return self._is_left(who) or who not in self._asked

    def _is_left(self, who: int) -> bool:
        return self._retracts and is_left(self._contributions.of(who))

    def _answer(self, who: int, letter: Letter) -> Answer:
        self._asked.add(who)
        wire, algorithm = self._settings.wire, self._settings.algorithm
        kind, arrays = Wire.decode(letter.content)
        newcomer = algorithm.agents(self._settings.problem, 1, Streams(np.random.SeedSequence(0), 1))
        with np.errstate(all="ignore"):
            reply = newcomer.answer(wire.gathered(kind, _ALONE, [arrays], "down"))
        if reply is None:
            return Answer(ours=True)
        if algorithm.about.private:
            reply = self._silenced(reply)
        if self._retracts and reply.kind in self._hand_overs:
            reply = self._minus(reply, self._contributions.of(who))
        return Answer(wire.encode(reply, 0, "up"), ours=True)

    def _silenced(self, reply: Message) -> Message:
        """`reply` without noise, which would protect nobody and stay in the pool."""
        declared = self._settings.wire.declared(reply.kind, "up")
        nothing = {name: np.zeros_like(array) for name, array in reply.arrays.items() if declared[name].adds}
        return replace(reply, arrays={**reply.arrays, **nothing})

    def _minus(self, reply: Message, contribution: Contribution) -> Message:
        arrays = dict(reply.arrays)
        for name, item in self._settings.wire.declared(reply.kind, "up").items():
            taken_in = contribution.sums.get(f"{reply.kind}.{name}")
            if item.adds == "increment" and taken_in is not None and name in arrays:
                arrays[name] = (arrays[name] - taken_in).astype(arrays[name].dtype)
        return Message(reply.kind, reply.who, arrays, reply.lengths)
