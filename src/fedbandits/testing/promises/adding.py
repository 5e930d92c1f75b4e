"""Fields say what they are: sums that a server pools, what is new since the last message, everything, or a question."""

from __future__ import annotations

from collections import Counter

import numpy as np

from fedbandits.contract.arrays import Array, IntArray
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Free, Ragged, Wire, WireField
from fedbandits.contract.world import turn_for
from fedbandits.testing.breach import Breach, close, difference, require
from fedbandits.testing.recording import Recording
from fedbandits.testing.subject import Subject, converse, play

_ASKED_AGAIN = 3
"""How often each kind of question is asked again."""


def pooled(subject: Subject) -> None:
    """A server that is handed the sum of a pooled field in one row, and zeros in the others, does the same.

    Sums are rounded in another order: numbers may differ by that, what is said to whom may not.
    """
    if not any(item.pooled for utterance in subject.algorithm.about.says for item in utterance.fields):
        return
    world, rows, sums = subject.world(), subject.side(), subject.side()
    for step in range(subject.horizon):
        play(rows, world, step)
        sums.load(rows.state())
        first = converse(rows, Recording(rows.agents, rows.ledger, rows.wire))
        second = converse(sums, _Pooling(sums.agents, sums.ledger, sums.wire))
        said, instead = ([(way, message.kind) for way, message in held.crossed] for held in (first, second))
        require(said == instead, f"step {step}: with sums in place of rows the server says {instead}, else {said}")
        for (_, message), (_, other) in zip(first.crossed, second.crossed, strict=True):
            require(
                np.array_equal(message.who, other.who),
                f"step {step}: with sums in place of rows {message.kind!r} goes to {other.who.tolist()}, "
                f"else to {message.who.tolist()}",
            )
        assert rows.server is not None
        assert sums.server is not None
        found = close(rows.server.state(), sums.server.state())
        require(not found, f"step {step}: the server that gets rows, and the one that gets sums: {found}")


class _Pooling(Recording):
    """Hands the server the sum of what agents sent in each pooled field, and zeros besides."""

    def _deliver(self, request: Message) -> Message | None:
        reply = super()._deliver(request)
        if reply is None or len(reply.who) == 0:
            return reply
        declared = self.wire.declared(reply.kind, "up")
        arrays = {name: _summed(held) if declared[name].pooled else held for name, held in reply.arrays.items()}
        return Message(reply.kind, reply.who, arrays, reply.lengths)


def _summed(rows: Array) -> Array:
    summed = np.zeros_like(rows)
    summed[0] = rows.sum(axis=0)
    return summed


def adds(subject: Subject) -> None:
    """Asked twice, an agent has no more increments to send, the same totals and the same answers to a query, which
    leaves it as it was.
    """
    if subject.topology != "star":
        return
    world, side = subject.world(), subject.side()
    carrier = side.carrier = _AskingAgain(side.agents, side.ledger, side.wire)
    for step in range(subject.horizon):
        carrier.step = step
        side.talk(play(side, world, step), step)


class _AskingAgain(Recording):
    """Asks the same question a second time, of which nobody else knows."""

    def __init__(self, agents: Population, ledger: Ledger, wire: Wire) -> None:
        super().__init__(agents, ledger, wire)
        self.step = 0
        self._asked: Counter[str] = Counter()

    def _deliver(self, request: Message) -> Message | None:
        if self._asked[request.kind] >= _ASKED_AGAIN:
            return super()._deliver(request)
        before = self._agents.state()
        reply = super()._deliver(request)
        if reply is None:
            return None
        self._asked[request.kind] += 1
        reply = self.crossed[-1][1]
        after = self._agents.state()
        declared = self.wire.declared(reply.kind, "up")
        where = f"step {self.step}: the answer {reply.kind!r} to {request.kind!r}"
        if declared and all(item.adds == "query" for item in declared.values()):
            found = difference(before, after)
            require(not found, f"{where} is a query, and yet it changed the agents: {found}")
        again = self._agents.answer(request)
        if again is None:
            raise Breach(f"{where}: nothing is answered when it is asked again")
        for name, held in again.arrays.items():
            self._repeated(f"{where}, asked again: {name!r}", declared[name], held, reply.arrays.get(name))
        self._agents.load(after)
        return reply

    def _repeated(self, what: str, item: WireField, held: Array, first: Array | None) -> None:
        if item.adds == "increment":
            require(not held.any(), f"{what} is an increment, and {np.abs(held).max(initial=0)} is sent once more")
        elif item.adds in ("total", "query"):
            require(first is not None and np.array_equal(first, held), f"{what} is a {item.adds}, and not the same")


def additive(subject: Subject) -> None:
    """Increments that are sent in two parts add up to what would have been sent at once.

    Tried with agents that nobody has told anything yet, where a plain signal asks for increments.
    """
    request = _first_collection(subject) if subject.topology == "star" else None
    if request is None:
        return
    whole, parts = subject.population(), subject.population()
    world, half = subject.world(), max(1, subject.horizon // 4)
    total: dict[str, Array] = {}
    for step in range(2 * half):
        turn = turn_for(world, step, whole)
        picks = whole.choose(turn.who, turn.arms)
        rewards = world.pay(step, picks).rewards
        for agents in (whole, parts):
            agents.learn(turn.who, turn.arms, picks, rewards)
        if step in (half - 1, 2 * half - 1):
            for name, held in _increments(subject, parts.answer(request)).items():
                total[name] = total.get(name, 0) + held
    found = close(_increments(subject, whole.answer(request)), total, subject.ignored)
    require(not found, f"increments over {half} and {half} observations do not add up to those over both: {found}")


def _first_collection(subject: Subject) -> Message | None:
    """The first question of the run whose answer is made up of increments; None if it asks more than that."""
    for event in subject.events:
        asked: Message | None = None
        for direction, message in event.crossed:
            if direction == "down":
                asked = message
            elif asked is not None and _increments(subject, message):
                everybody: IntArray = np.arange(subject.problem.agents)
                return None if asked.arrays else Message(asked.kind, everybody)
    return None


def _increments(subject: Subject, reply: Message | None) -> dict[str, Array]:
    """What of an answer adds up: lists, of which agents send more or less, are strung together instead."""
    if reply is None:
        return {}
    declared = subject.wire.declared(reply.kind, "up")
    return {name: np.array(held) for name, held in reply.arrays.items() if _adds_up(declared[name])}


def _adds_up(item: WireField) -> bool:
    return item.adds == "increment" and not any(isinstance(size, Free | Ragged) for size in item.shape)
