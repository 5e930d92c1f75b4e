"""The agent in memory: a population of one, what is counted beside it, and how both follow from the journal."""

from __future__ import annotations

import dataclasses
import json
import logging
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.arrays import FloatArray, State
from fedbandits.contract.messages import Message
from fedbandits.contract.state import from_bytes, to_bytes
from fedbandits.contract.streams import Secret
from fedbandits.contract.wire import Wire, WireError, hand_overs
from fedbandits.deploy.embedded.exploring import Considered
from fedbandits.deploy.embedded.inputs import FLOATS
from fedbandits.deploy.embedded.parts import names_within, parts_of
from fedbandits.deploy.embedded.persons import number_of
from fedbandits.deploy.embedded.population import ALONE, population_with_secret
from fedbandits.deploy.embedded.secret import fresh_nonce
from fedbandits.deploy.errors import AgentError, InputError, LetterError, ReplayError
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.entries import (
    Answered,
    ChosenBy,
    Closed,
    Decided,
    Event,
    HandOver,
    Rewarded,
    Snapshot,
)
from fedbandits.deploy.storage.history import History
from fedbandits.privacy.persons import PersonCounts
from fedbandits.privacy.prefix_sums import NoiseSteps

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What is counted beside the population's own state; `entry` is the last one that is part of it."""

    entry: int = 0
    decisions: int = 0
    rewards: int = 0
    letters: int = 0
    synchronised_at: float | None = None
    episodes: int = 0
    """Episodes that are over."""
    truncated: int = 0
    """Those among them of which something is not known."""
    dropped: int = 0
    """Their decisions of which nothing was learned."""
    unsent: int = 0
    """Rewards since the last reply that handed anything over."""
    handed: dict[str, int] = dataclasses.field(default_factory=dict)
    """By the entry of replies of which it is not known what became of them: how many rewards they hand over."""


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
        self._hand_overs = hand_overs(settings.algorithm.about.says)
        self.counts = Counts()
        self.ahead = False
        """Whether it may hold something that the file does not."""
        self.nonces: dict[int, bytes] = {}
        """By entry, what the noise of entries derives from that were not written down yet."""
        self.population, self._secret = population_with_secret(settings)
        protection = self.population.protection()
        self._unit = None if protection is None else protection.unit
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

    @property
    def protects_persons(self) -> bool:
        """Whether it has to know whom observations are about."""
        return self._unit == "person"

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

    def decide(self, shown: FloatArray, stage: int | None = None, nonce: bytes | None = None) -> Considered:
        """Choose among arms (K, d), in a stage of an episode where the algorithm plans."""
        self._enter(nonce)
        try:
            if stage is not None:
                self.population.situate(ALONE, np.array([stage]))
            picks, scores, chances = self.population.choose_and_tell(ALONE, shown[None])
        except AgentError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from error
        self.counts.entry += 1
        self.counts.decisions += 1
        return Considered(int(picks[0]), None if scores is None else scores[0], None if chances is None else chances[0])

    def note(self, nonce: bytes | None = None) -> None:
        """A decision that somebody else has taken."""
        self._enter(nonce)
        self.counts.entry += 1
        self.counts.decisions += 1

    def learn(self, decided: Decided, reward: float, nonce: bytes | None = None) -> None:
        """Take in the reward of a decision; an episode is learned when it is over (`close`)."""
        self._enter(nonce)
        if decided.episode is None:
            self._learn(self._shown(decided), decided.pick, reward, decided.who)
            self.counts.unsent += 1
        self.counts.entry += 1
        self.counts.rewards += 1

    def close(self, closed: Closed, nonce: bytes | None = None) -> None:
        """Take in an episode."""
        self._enter(nonce)
        for decided, reward in closed.learned:
            self._learn(self._shown(decided), decided.pick, reward, decided.who)
        if closed.then is not None:
            self.population.truncate(ALONE, self._shown(closed.then)[None])
        elif len(closed.learned) != self.population.stages:
            last, _ = closed.learned[-1]
            self._learn(np.zeros_like(self._shown(last)), 0, 0.0, last.who)  # how a turn says that there is no other
        self.counts.entry += 1
        self.counts.episodes += 1
        self.counts.truncated += closed.then is not None
        self.counts.dropped += closed.dropped
        self.counts.unsent += len(closed.learned)

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

    def answer(
        self,
        request: Message,
        at: float,
        nonce: bytes | None = None,
        *,
        settled: Sequence[HandOver] = (),
        acknowledged: bool = False,
        found: Message | None = None,
    ) -> bytes | None:
        """Do what the server says; the reply as bytes, if there is one.

        First, what the letter tells about earlier replies (`settled`) is taken in. `acknowledged`: the server tells
        what becomes of the reply, if it hands something over (`awaits_verdict`). `found`: the reply, where it is known
        already and changes nothing (`pondering`).
        """
        self._enter(nonce)
        for told in settled:
            self._settle(told)
        with answering(request):
            reply = self.population.answer(request) if found is None else found
        self.counts.entry += 1
        self.counts.letters += 1
        self.counts.synchronised_at = at
        if reply is None:
            return None
        self._wire.check(reply, "up")
        if reply.kind in self._hand_overs:
            if acknowledged:
                self.counts.handed[str(self.counts.entry)] = self.counts.unsent
            self.counts.unsent = 0
        return self._wire.encode(reply, 0, "up")

    def awaits_verdict(self, entry: int) -> bool:
        """Whether the reply of an entry handed something over, and it is not known what became of it."""
        return str(entry) in self.counts.handed

    def _settle(self, told: HandOver) -> None:
        """What was handed over is known to be taken in; or it was not, and is the agent's again."""
        observed = self.counts.handed.pop(str(told.entry), 0)
        if told.accepted:
            return
        try:
            kind, arrays = Wire.decode(told.reply or b"")
            sent = self._wire.gathered(kind, ALONE, [arrays], "up")
            self.population.restore(sent, np.array([float(observed)]))
        except ValueError as error:
            # an algorithm that cannot take anything back goes on without
            log.warning("what was handed over in entry %d was declined, and is lost: %s", told.entry, error)
            return
        self.counts.unsent += observed

    def drop_arm(self, place: int) -> None:
        """Forget what was learned of an arm that is known by its place. The entry that this takes is in no table: the
        state has to be saved before anything else is done.
        """
        self._enter(None)
        try:
            if not isinstance(self.population, ArmedAgents):
                raise ValueError("only algorithms that know arms by their place can drop one")
            self.population.drop_arm(place)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.counts.entry += 1

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

    def catch_up(self, history: History, *, verify: bool) -> None:
        """Do again everything that `history` has after the entry that this is the state of."""
        for event in history.events(self.counts.entry):
            nonce = history.nonce(event.entry) if self.draws_secretly else None
            self.repeat(event, nonce, verify=verify)

    def snapshot(self) -> Snapshot:
        """The state as it is now, with its key if it has one."""
        counts = json.dumps(dataclasses.asdict(self.counts))
        return Snapshot(self.counts.entry, counts, to_bytes(self.population.state()))

    # looking

    def public_state(self) -> State:
        """The population's state without what nobody may know: its key, and noise that is still in use."""
        drawn = {f"{place}drawn" for place, part in parts_of(self.population) if isinstance(part, NoiseSteps)}
        hidden = self._secrets() | drawn
        return {name: array for name, array in self.population.state().items() if name not in hidden}

    def keeps_observations(self) -> bool:
        """Whether the state grows with what is observed, instead of summing it up. How often somebody was observed,
        under a number that stands for them, is no observation.
        """
        return any(part.resizes for _, part in parts_of(self.population) if not isinstance(part, PersonCounts))

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
                own = self.decide(self._shown(event), event.stage, nonce).pick
                return event.chosen_by is ChosenBy.CHANCE or own == event.pick
            case Answered():
                request, told = self.read(event.request), event.settled
                found = None if told else self._pondered(request, event.reply)
                reply = self.answer(request, event.at, nonce, settled=told, acknowledged=event.handed_over, found=found)
                return _say_the_same(reply, event.reply)
            case Rewarded():
                self.learn(event.decision, event.value, nonce)
                return True
            case Closed():
                self.close(event, nonce)
                return True

    def _pondered(self, request: Message, recorded: bytes | None) -> Message | None:
        """The recorded reply to a question that would change nothing if it were answered again."""
        if recorded is None or self.population.ponder(request) is None:
            return None
        try:
            kind, arrays = Wire.decode(recorded)
            return self._wire.gathered(kind, ALONE, [arrays], "up")
        except ValueError:  # it is answered again, and held against this
            return None

    def _learn(self, shown: FloatArray, pick: int, reward: float, who: str | None) -> None:
        """One observation, about a person if one is named."""
        if who is not None:
            key = b"" if self._secret is None else self._secret.key.tobytes()
            self.population.attribute(ALONE, np.array([number_of(who, key)]))
        self.population.learn(ALONE, shown[None], np.array([pick]), np.array([reward]))

    def _shown(self, decided: Decided) -> FloatArray:
        return np.frombuffer(decided.arms, FLOATS).reshape(-1, self._settings.dim).copy()


@contextmanager
def answering(request: Message) -> Iterator[None]:
    """Whatever a stranger's numbers may lead to is a `LetterError`."""
    try:
        yield
    except Exception as error:
        raise LetterError(f"the letter {request.kind!r} cannot be answered: {error}") from error


def _say_the_same(now: bytes | None, then: bytes | None) -> bool:
    """Whether two replies hold the same numbers; an earlier version may have called their kind otherwise."""
    if now is None or then is None or now == then:
        return now == then
    try:
        (_, held), (_, recorded) = Wire.decode(now), Wire.decode(then)
    except WireError:
        return False
    return held.keys() == recorded.keys() and all(
        array.dtype == recorded[name].dtype
        and array.shape == recorded[name].shape
        and array.tobytes() == recorded[name].tobytes()
        for name, array in held.items()
    )
