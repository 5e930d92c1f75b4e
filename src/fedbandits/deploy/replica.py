"""The agent in memory: a population of one, what is counted beside it, and how both follow from the journal."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.messages import Message
from fedbandits.contract.state import Stateful, from_bytes, to_bytes
from fedbandits.contract.wire import Wire
from fedbandits.deploy.errors import InputError, LetterError, ReplayError
from fedbandits.deploy.inputs import FLOATS
from fedbandits.deploy.journal import Answered, Decided, Event, Rewarded, Snapshot
from fedbandits.deploy.rehearsal import ALONE
from fedbandits.deploy.settings import Settings


@dataclass(slots=True)
class Books:
    """What is counted beside the population's own state; `entry` is the last one that is part of it."""

    entry: int = 0
    decisions: int = 0
    rewards: int = 0
    letters: int = 0
    synchronised_at: float | None = None


class Replica:
    """The state after some entry of the journal: that of `snapshot`, or a new agent's.

    Every method that changes the state moves on by one entry. Whoever calls it has to write that entry down, or throw
    the replica away.
    """

    def __init__(self, settings: Settings, snapshot: Snapshot | None) -> None:
        self._settings = settings
        self._wire = settings.wire
        self.population = settings.population()
        self.books = Books()
        if snapshot is not None:
            try:
                self.books = Books(**json.loads(snapshot.books))
                self.population.load(from_bytes(snapshot.state))
            except (ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
                raise ReplayError(f"the saved state does not fit this version of the algorithm: {error}") from error

    def decide(self, shown: FloatArray) -> int:
        """Choose among arms (K, d)."""
        try:
            pick = int(self.population.choose(ALONE, shown[None])[0])
        except ValueError as error:
            raise InputError(str(error)) from error
        self.books.entry += 1
        self.books.decisions += 1
        return pick

    def learn(self, decided: Decided, reward: float) -> None:
        """Take in the reward of a decision."""
        shown = self._shown(decided)[None]
        self.population.learn(ALONE, shown, np.array([decided.pick]), np.array([reward]))
        self.books.entry += 1
        self.books.rewards += 1

    def read(self, letter: bytes) -> Message:
        """The message in a server's letter, if it is one that the algorithm declares; changes nothing."""
        try:
            kind, arrays = Wire.decode(letter)
            request = Message(kind, ALONE, {name: value[None] for name, value in arrays.items()})
            self._wire.check(request, "down")
        except ValueError as error:
            raise LetterError(f"the letter cannot be read: {error}") from error
        for name, value in arrays.items():
            # a single number may be infinite, as a threshold that is never reached
            if np.isnan(value).any() or (value.ndim > 0 and not np.isfinite(value).all()):
                raise LetterError(f"{name!r} of the letter {kind!r} is not finite")
        return request

    def answer(self, request: Message, at: float) -> bytes | None:
        """Do what the server says; the reply as bytes, if there is one."""
        try:
            reply = self.population.answer(request)
        except Exception as error:  # whatever a stranger's numbers may lead to
            raise LetterError(f"the letter {request.kind!r} cannot be answered: {error}") from error
        self.books.entry += 1
        self.books.letters += 1
        self.books.synchronised_at = at
        if reply is None:
            return None
        self._wire.check(reply, "up")
        return self._wire.encode(reply, 0, "up")

    def repeat(self, event: Event, *, verify: bool) -> None:
        """Do again what the next entry of the journal says; `verify` that the result is the one it records."""
        try:
            same = self._repeat(event)
        except (InputError, LetterError) as error:
            raise ReplayError(f"entry {event.entry} cannot be done again: {error}") from error
        if verify and not same:
            raise ReplayError(
                f"doing entry {event.entry} again gives another result than was recorded; this happens if the file was "
                "left by another version of the library, or on another processor: open it there, or with verify=False"
            )

    def snapshot(self) -> Snapshot:
        """The state as it is now."""
        books = json.dumps(dataclasses.asdict(self.books))
        return Snapshot(self.books.entry, books, to_bytes(self.population.state()))

    def keeps_observations(self) -> bool:
        """Whether the state grows with what is observed, instead of summing it up."""
        return _grows(self.population)

    def _repeat(self, event: Event) -> bool:
        match event:
            case Decided():
                return self.decide(self._shown(event)) == event.pick
            case Answered():
                return self.answer(self.read(event.request), event.at) == event.reply
            case Rewarded():
                self.learn(event.decision, event.value)
                return True

    def _shown(self, decided: Decided) -> FloatArray:
        return np.frombuffer(decided.arms, FLOATS).reshape(-1, self._settings.dim).copy()


def _grows(part: object) -> bool:
    return isinstance(part, Stateful) and (
        bool(part.resizes) or any(_grows(getattr(part, name)) for name in part.keeps)
    )
