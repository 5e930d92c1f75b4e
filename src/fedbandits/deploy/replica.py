"""The agent in memory: a population of one, what is counted beside it, and how both follow from the journal."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray, State
from fedbandits.contract.messages import Message
from fedbandits.contract.state import from_bytes, to_bytes
from fedbandits.contract.streams import Secret
from fedbandits.contract.wire import Wire
from fedbandits.deploy.entries import Answered, ChosenBy, Decided, Event, Rewarded, Snapshot
from fedbandits.deploy.errors import AgentError, InputError, LetterError, ReplayError
from fedbandits.deploy.exploring import Considered
from fedbandits.deploy.inputs import FLOATS
from fedbandits.deploy.parts import names_within, parts_of
from fedbandits.deploy.population import ALONE, population_with_secret
from fedbandits.deploy.secret import fresh_nonce
from fedbandits.deploy.settings import Settings


@dataclass(slots=True)
class Counts:
    """What is counted beside the population's own state; `entry` is the last one that is part of it."""

    entry: int = 0
    decisions: int = 0
    rewards: int = 0
    letters: int = 0
    synchronised_at: float | None = None


class Replica:
    """The state after some entry of the journal: that of `snapshot`, or a new agent's.

    Every method that changes the state moves on by one entry. Whoever calls it has to write that entry and its nonce
    down, or throw the replica away.

    An agent that draws noise which protects people has a key in its snapshots (see `secret`). Files of version 0.1.0
    have none: their agents drew that noise from the seed. What they did is done again in that way, and then they are
    `sealed`.
    """

    def __init__(self, settings: Settings, snapshot: Snapshot | None) -> None:
        self._settings = settings
        self._wire = settings.wire
        self.counts = Counts()
        self.ahead = False
        """Whether it may hold something that the file does not."""
        self.nonces: dict[int, bytes] = {}
        """By entry, what the noise of entries derives from that were not written down yet."""
        self.population, self._secret = population_with_secret(settings)
        try:
            saved = None if snapshot is None else from_bytes(snapshot.state)
            self.unsealed = self._secret is not None and (saved is None or not self._secrets() <= saved.keys())
            """Whether it still draws its noise from the seed: to be `sealed` before it goes on."""
            if self.unsealed:
                self.population, self._secret = settings.population(), None
            if snapshot is not None and saved is not None:
                self.counts = Counts(**json.loads(snapshot.counts))
                self.population.load(saved)
        except (ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            raise ReplayError(f"the saved state does not fit this version of the algorithm: {error}") from error

    def sealed(self) -> Replica:
        """The same agent with a key of its own, from which its noise comes from now on."""
        other = Replica(self._settings, None)
        other.population, other._secret = population_with_secret(self._settings)
        other.unsealed = False
        if self.counts.entry > 0:  # a new agent is as it was just made
            other.counts = self.counts
            other.population.load(other.population.state() | self.population.state())
        return other

    # going on

    def consider(self, shown: FloatArray) -> Considered:
        """What the agent thinks of arms (K, d), of which it is about to choose one; changes nothing."""
        try:
            scores, chances = (tell(ALONE, shown[None]) for tell in (self.population.scores, self.population.chances))
        except ValueError as error:
            raise InputError(str(error)) from error
        return Considered(None if scores is None else scores[0], None if chances is None else chances[0])

    def decide(self, shown: FloatArray, nonce: bytes | None = None) -> int:
        """Choose among arms (K, d)."""
        self._enter(nonce)
        try:
            pick = int(self.population.choose(ALONE, shown[None])[0])
        except AgentError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from error
        self.counts.entry += 1
        self.counts.decisions += 1
        return pick

    def note(self, nonce: bytes | None = None) -> None:
        """A decision that somebody else has taken."""
        self._enter(nonce)
        self.counts.entry += 1
        self.counts.decisions += 1

    def learn(self, decided: Decided, reward: float, nonce: bytes | None = None) -> None:
        """Take in the reward of a decision."""
        self._enter(nonce)
        shown = self._shown(decided)[None]
        self.population.learn(ALONE, shown, np.array([decided.pick]), np.array([reward]))
        self.counts.entry += 1
        self.counts.rewards += 1

    def read(self, letter: bytes) -> Message:
        """The message in a server's letter, if it is one that the algorithm declares; changes nothing."""
        try:
            kind, arrays = Wire.decode(letter)
            request = self._wire.gathered(kind, ALONE, [arrays], "down")
            self._wire.check(request, "down")
        except ValueError as error:
            raise LetterError(f"the letter cannot be read: {error}") from error
        for name, value in arrays.items():
            # a single number may be infinite, as a threshold that is never reached
            if np.isnan(value).any() or (value.ndim > 0 and not np.isfinite(value).all()):
                raise LetterError(f"{name!r} of the letter {kind!r} is not finite")
        return request

    def answer(self, request: Message, at: float, nonce: bytes | None = None) -> bytes | None:
        """Do what the server says; the reply as bytes, if there is one."""
        self._enter(nonce)
        try:
            reply = self.population.answer(request)
        except Exception as error:  # whatever a stranger's numbers may lead to
            raise LetterError(f"the letter {request.kind!r} cannot be answered: {error}") from error
        self.counts.entry += 1
        self.counts.letters += 1
        self.counts.synchronised_at = at
        if reply is None:
            return None
        self._wire.check(reply, "up")
        return self._wire.encode(reply, 0, "up")

    # doing again

    @property
    def draws_secretly(self) -> bool:
        """Whether its entries have nonces."""
        return self._secret is not None

    def repeat(self, event: Event, nonce: bytes | None, *, verify: bool) -> None:
        """Do again what the next entry of the journal says, with the noise it had; `verify` that the result is the one
        it records.
        """
        try:
            same = self._repeat(event, nonce)
        except (InputError, LetterError) as error:
            raise ReplayError(f"entry {event.entry} cannot be done again: {error}") from error
        if verify and not same:
            raise ReplayError(
                f"doing entry {event.entry} again gives another result than was recorded; this happens if the file was "
                "left by another version of the library, or on another processor: open it there, or with verify=False"
            )

    def snapshot(self) -> Snapshot:
        """The state as it is now, with its key if it has one."""
        counts = json.dumps(dataclasses.asdict(self.counts))
        return Snapshot(self.counts.entry, counts, to_bytes(self.population.state()))

    # looking

    def public_state(self) -> State:
        """The population's state without what nobody may know."""
        secrets = self._secrets()
        return {name: array for name, array in self.population.state().items() if name not in secrets}

    def keeps_observations(self) -> bool:
        """Whether the state grows with what is observed, instead of summing it up."""
        return any(part.resizes for _, part in parts_of(self.population))

    def _enter(self, nonce: bytes | None) -> None:
        """The next entry begins; its noise derives from `nonce`, or from a fresh one."""
        self.ahead = True
        if self._secret is None:
            return
        if nonce is None:
            nonce = self.nonces[self.counts.entry + 1] = fresh_nonce()
        self._secret.begin(nonce)

    def _secrets(self) -> frozenset[str]:
        return names_within(self.population, Secret)

    def _repeat(self, event: Event, nonce: bytes | None) -> bool:
        match event:
            case Decided(chosen_by=ChosenBy.OTHERS):
                self.note(nonce)
                return True
            case Decided():
                own = self.decide(self._shown(event), nonce)
                return event.chosen_by is ChosenBy.CHANCE or own == event.pick
            case Answered():
                return self.answer(self.read(event.request), event.at, nonce) == event.reply
            case Rewarded():
                self.learn(event.decision, event.value, nonce)
                return True

    def _shown(self, decided: Decided) -> FloatArray:
        return np.frombuffer(decided.arms, FLOATS).reshape(-1, self._settings.dim).copy()
