"""Messages: the only thing that passes between agents, servers and peers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedbandits.contract.arrays import Array, BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A batch of messages of one kind: row i of every array goes to, or comes from, agent `who[i]`.

    A request is addressed to `who`, a reply was sent by `who`; nothing but a kind and named arrays
    can cross the wire. A message without arrays is a signal ("send me your statistics").
    """

    kind: str
    who: IntArray
    arrays: Mapping[str, Array] = field(default_factory=dict)
    lengths: Mapping[str, IntArray] = field(default_factory=dict)
    """For sizes that differ from agent to agent, by name: (w,) how much of the padded arrays is each agent's."""

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if array.ndim == 0 or len(array) != len(self.who):
                raise ValueError(
                    f"array {name!r} of message {self.kind!r} needs one row for each of "
                    f"{len(self.who)} agents, got shape {array.shape}"
                )

    def of(self, rows: IntArray | BoolArray) -> Message:
        """The shares of some of its agents: those in the given places, or where the mask is true."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Message(self.kind, self.who[rows], arrays, {name: held[rows] for name, held in self.lengths.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Opening(Message):
    """A request of whose answers nothing is used but what their `course` makes of them, as compiled functions take it:
    it may be followed by others of its kind to the same agents, each of which follows from the sum of the answers to
    the one before, or be what becomes of the answers to this one. The course is moved on by those who are asked.

    Whoever carries it may take it as the message that it is. Where nobody looks on and agents know such a course
    (`Population.pursue`), all of the rounds are played at once, with the same numbers, and the last one's answer, a
    `Closing`, is returned.
    """

    course: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Closing(Message):
    """The answer to the last request of a course, of `rounds` requests in all.

    It weighs what that answer weighs; a field that was taken in on the way may be shown as what became of it.
    """

    rounds: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Inbox:
    """What a relay delivers in one round: letter e is row `row[e]` of `said`, handed to agent `to[e]`.

    `said` holds every distinct message once, however many agents receive it (where a network changes messages on their
    way, receivers may hold different ones of one origin and round); `said.who` are the origins and `born` (rows,) the
    rounds in which they spoke. Letters are sorted by receiver, and for each receiver newest first, then by origin.
    `to` and `row` may be shared between rounds: they cannot be written to.
    """

    said: Message
    born: IntArray
    to: IntArray
    row: IntArray


Conversation = Generator[Message, Message, None]
"""Yields requests; is resumed with a message whose `who` are those of the addressees who were reached, in request
order. It carries arrays if an answer was due and anybody was reached."""
