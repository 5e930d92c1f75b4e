"""Which answers a server expects, and what becomes of those that come late; from what an algorithm declares to say.

Over a real network nobody can know whether a letter that was not answered has been read. Two rules keep a federation
consistent all the same, whatever the algorithm:

- An *instruction* ("here is the pool") is posted: it is delivered once, in order, and before anything else that its
  addressee hears, however late. To the server its addressee has been reached.
- A *question* ("send me what is new") that is not answered in time leaves its addressee out: it hears nothing else in
  this conversation. It is asked again later under its old number, so that what it has handed over is not lost: if the
  answer *hands over* statistics, it stands as the answer to the next question of the same words (or, if it holds
  nothing but increments, which are what they are whatever was asked, of the same kind), and until then the agent is
  left out of everything else; any other answer has lost its meaning and is dropped. Algorithms whose conversations need
  everybody (`About.waits`) do not leave anybody out: their server waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire


@dataclass(frozen=True, slots=True)
class Form:
    """What the answers to a question look like: their kind and the names of their fields."""

    kind: str
    fields: frozenset[str]


class Newcomer:
    """An agent that has seen nothing, kept by the server to know what an honest answer to a letter looks like."""

    def __init__(self, algorithm: Algorithm, problem: Problem, wire: Wire) -> None:
        self._agents = algorithm.agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
        self._wire = wire
        self._forms: dict[Form, Form | None] = {}

    def form(self, letter: bytes) -> Form | None:
        """The form of answers to a server's `letter`; None for an instruction, which is not answered."""
        kind, arrays = Wire.decode(letter)
        key = Form(kind, frozenset(arrays))
        if key not in self._forms:
            alone = np.zeros(1, dtype=np.int64)
            with np.errstate(all="ignore"):
                reply = self._agents.answer(self._wire.gathered(kind, alone, [arrays], "down"))
            self._forms[key] = None if reply is None else Form(reply.kind, frozenset(reply.arrays))
        return self._forms[key]
