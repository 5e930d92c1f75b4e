"""Carriers: they bring requests to agents and replies back, and count both.

`InProcess` hands arrays over as they are: what a simulation uses. `Serialising` has one population of one
per agent and turns every message into bytes and back: what a deployment amounts to, and the yardstick
the simulation is held against. Both meter through the same ledger and the same wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, IntArray
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Closing, Message, Opening
from fedbandits.contract.population import Population
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Direction, Wire, WireError


class Carrier(ABC):
    """Brings a request to its addressees and returns their replies; counts what crosses."""

    def __init__(self, ledger: Ledger, wire: Wire) -> None:
        self.ledger = ledger
        self.wire = wire
        self.reachable: BoolArray | None = None
        """(n,) who can be reached at the moment; None for everybody."""

    def carry(self, request: Message) -> Message:
        """Deliver `request` to whoever can be reached, and return what they answer.

        The reply's `who` are those who were reached; it carries arrays only if an answer was due.
        """
        size = self.wire.check(request, "down")
        request = self._reaching(request)
        if len(request.who) == 0:
            return Message(request.kind, request.who)
        self.ledger.record(request, "down", self.wire, size=size)
        reply = self._deliver(request)
        if reply is None:
            return Message(request.kind, request.who)
        weighs = self.wire.check(reply, "up")
        rounds = reply.rounds if isinstance(reply, Closing) else 1
        if rounds > 1:
            self.ledger.record(request, "down", self.wire, rounds=rounds - 1, size=size)
        self.ledger.record(reply, "up", self.wire, rounds=rounds, size=weighs)
        return reply

    def _reaching(self, request: Message) -> Message:
        if self.reachable is None or self.reachable[request.who].all():
            return request
        return request.of(self.reachable[request.who])

    @abstractmethod
    def _deliver(self, request: Message) -> Message | None: ...


class InProcess(Carrier):
    """One population, in this process."""

    def __init__(self, agents: Population, ledger: Ledger, wire: Wire) -> None:
        super().__init__(ledger, wire)
        self._agents = agents
        self.pursues = False
        """Whether a course is played to its end where agents know it; nobody sees the messages in between."""

    def _deliver(self, request: Message) -> Message | None:
        if self.pursues and isinstance(request, Opening):
            closing = self._agents.pursue(request)
            if closing is not None:
                return closing
        return self._agents.answer(request)


class Serialising(Carrier):
    """n populations of one, reached by bytes alone."""

    def __init__(self, agents: Sequence[Population], ledger: Ledger, wire: Wire) -> None:
        super().__init__(ledger, wire)
        self._agents = agents
        self.bytes_seen = 0

    def _deliver(self, request: Message) -> Message | None:
        alone = np.zeros(1, dtype=np.int64)
        answered: list[int] = []
        shares: list[dict[str, Array]] = []
        kinds: set[str] = set()
        for row, agent in enumerate(request.who):
            kind, arrays = self._through(request, row, "down")
            reply = self._agents[agent].answer(self.wire.gathered(kind, alone, [arrays], "down"))
            if reply is not None:
                self.wire.check(reply, "up")
                kind, arrays = self._through(reply, 0, "up")
                answered.append(int(agent))
                shares.append(arrays)
                kinds.add(kind)
        if not answered:
            return None
        if len(kinds) > 1:
            raise WireError(f"agents answer {request.kind!r} in different ways: {', '.join(sorted(kinds))}")
        return self.wire.gathered(kinds.pop(), np.array(answered, dtype=np.int64), shares, "up")

    def _through(self, message: Message, row: int, direction: Direction) -> tuple[str, dict[str, Array]]:
        data = self.wire.encode(message, row, direction)
        if message.arrays:
            self.bytes_seen += len(data)
            if len(data) != self.wire.size(message, direction, row).bytes:
                raise WireError(f"message {message.kind!r} was metered wrongly")
        return Wire.decode(data)


def hold(server: Server, callers: IntArray, carrier: Carrier) -> None:
    """Give the server the floor and carry what it says until it is done."""
    carrier.ledger.call(len(callers))
    conversation = server.converse(callers)
    try:
        request = next(conversation)
        carrier.ledger.synchronised()
        while True:
            request = conversation.send(carrier.carry(request))
    except StopIteration:
        return
