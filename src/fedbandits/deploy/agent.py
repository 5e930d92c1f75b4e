"""The agent that a product embeds: decisions at once, rewards whenever they come, nothing lost in between."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedbandits.contract.arrays import State
from fedbandits.deploy.errors import (
    AgentError,
    CannotForgetError,
    ClosedError,
    ConflictError,
    DatabaseErrors,
    ExpiredError,
    InputError,
    ReplayError,
    SettingsError,
    StorageError,
    UnknownDecisionError,
    storage_error,
    translated,
)
from fedbandits.deploy.inputs import Arms, check_text, menu, named, parsed, reward_value, seconds
from fedbandits.deploy.journal import Decided, Journal
from fedbandits.deploy.rehearsal import rehearse
from fedbandits.deploy.replica import Replica
from fedbandits.deploy.settings import Settings, made, stored

if TYPE_CHECKING:
    from fedbandits.contract.algorithm import Algorithm
    from fedbandits.contract.problem import Moment, Problem
    from fedbandits.linalg.links import LinkName

_LAST_TURN = 2**63 - 1
Rewards = Mapping[str, float] | Iterable[tuple[str, float]]
"""Rewards by the ids of their decisions."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. Log the `id`: it is what the reward will be told with."""

    id: str
    arm: str | int
    """The name of the chosen arm; its index if the arms had no names."""
    index: int
    """Its place among the arms that were shown, from 0."""


@dataclass(frozen=True, slots=True)
class Status:
    """How an agent is getting on."""

    decisions: int
    """Decisions ever taken."""
    rewards: int
    """Rewards ever counted."""
    awaiting: int
    """Decisions whose reward may still come."""
    expired: int
    """Decisions whose reward did not come in time."""
    late: int
    """Rewards that were refused because their decision had expired."""
    letters: int
    """Letters of a server that were answered."""
    synchronised_at: datetime | None
    """When the server last spoke with this agent; None before the first time."""
    calling: bool
    """Whether the agent asks the server for a conversation."""
    level: float | None
    """How far the trigger has come, 1 being where the agent calls; None if its algorithm has no trigger."""
    spent: float | None
    """Epsilon of differential privacy spent so far; None if the algorithm is not private."""


class Agent:
    """One agent of a federation, alive in a file.

    The algorithm is the one that the simulator runs, as a population of one. Every call that changes something is
    written to the file before it returns: a process that is killed at any point loses nothing it has acknowledged, and
    a reward told twice is counted once. The file also is the only place of raw observations; what a server gets is what
    the algorithm declares, by `answer`.

    An agent may be used by several threads, and by several processes of one host that open the same file: each call
    first does what the others have done in the meantime, so that all of them hold the same state. It may not be used
    across a fork; open it anew in the child.

    >>> import tempfile, pathlib, numpy as np, fedbandits as fb
    >>> from fedbandits.deploy import Agent
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "agent.db"
    >>> agent = Agent.open(path, algorithm=fb.algorithms.DisLinUCB(threshold=2.0), dim=3)
    >>> decision = agent.decide({"reminder": [1.0, 0.2, 0.0], "call": [1.0, 0.0, 0.7]})
    >>> decision.arm
    'call'
    >>> agent.reward(decision.id, 1.0), agent.reward(decision.id, 1.0)
    (True, False)
    >>> agent.close()
    >>> with Agent.open(path) as again:
    ...     status = again.status()
    >>> status.decisions, status.rewards, status.awaiting
    (1, 1, 0)
    """

    def __init__(
        self, journal: Journal, settings: Settings, *, snapshot_every: int, verify: bool, clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        """What the agent was made with."""
        self._journal = journal
        self._snapshot_every = snapshot_every
        self._verify = verify
        self._clock = clock
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._tags = random.Random()  # seeded by the operating system
        self._snapshot_at = 0
        self._replica = Replica(settings, None)
        self._version = -1
        """That of the journal when memory was last made to agree with it."""
        self._ahead = True
        """Whether memory may hold something that the file does not; it is then built anew from the file."""
        with self._reading():
            pass

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        algorithm: Algorithm | None = None,
        dim: int | None = None,
        *,
        arms: int | None = None,
        agents: int | None = None,
        identity: int | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        noise: float | None = None,
        bound: float | None = None,
        arm_norm: float | None = None,
        link: LinkName | None = None,
        shared: int | None = None,
        moment: Moment | None = None,
        contamination: float | None = None,
        range: tuple[float, float] | None = None,
        expire_after: float | timedelta | None = None,
        packed: bool | None = None,
        durable: bool = True,
        timeout: float = 10.0,
        snapshot_every: int = 1000,
        verify: bool = True,
        warm: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """The agent in the file `path`, which is made if there is none.

        A new agent needs `algorithm` and `dim`, the number d of features of an arm. The settings up to `packed` are
        written into the file: an existing agent is opened by its path alone, and whatever else is given must be what it
        was made with.

        - `arms`: how many arms every decision is among; by default that may vary.
        - `agents` (1), `identity` (0), `horizon` (10 000), `seed` (0): how many agents the federation has, which of
          them this is, how many decisions it plans for, and what its random choices derive from. They are those of
          agent `identity` in `simulate(..., seed=seed)`, and different for different identities.
        - `noise` (0.1), `bound` (1), `arm_norm` (1), `link` ("identity"), `shared`, `moment`, `contamination`,
          `range`: what is known of the problem; see `Problem`. A reward outside of `range` is refused.
        - `expire_after`: seconds, or a timedelta, after which a decision no longer awaits its reward; by default never.
        - `packed`: whether replies carry symmetric matrices as triangles.

        The other settings hold for this opening alone.

        - `durable`: each call waits for the disk. Without, a killed process still loses nothing, but a power failure
          may lose the last calls before it (never the file).
        - `timeout`: seconds to wait for other processes before a call fails with `LockedError`.
        - `snapshot_every`: entries after which the state is saved whole; those since then are done again at opening.
        - `verify`: whether doing again has to give the recorded choices and replies. Another processor or another
          version of the library may round differently; `False` then goes on with the choices that were recorded. An
          agent that was closed has nothing to do again.
        - `warm`: rehearse first, so that no call waits for the compiler: seconds on a machine's first run, a fraction
          of a second in a new process.
        """
        if isinstance(expire_after, timedelta):
            expire_after = expire_after.total_seconds()
        given = {
            "algorithm": algorithm,
            "dim": dim,
            "arms": arms,
            "agents": agents,
            "identity": identity,
            "horizon": horizon,
            "seed": seed,
            "noise": noise,
            "bound": bound,
            "arm_norm": arm_norm,
            "link": link,
            "shared": shared,
            "moment": moment,
            "contamination": contamination,
            "range": range,
            "expire_after": expire_after,
            "packed": packed,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if snapshot_every < 1:
            raise SettingsError(f"snapshot_every: must be at least 1 (got {snapshot_every})")
        if not _has_content(path):
            _newly(path, given)  # before there is a file, if there cannot be an agent in it
        journal = Journal(path, durable=durable, timeout=timeout)
        try:
            with translated(path):
                text = journal.settings(otherwise=lambda: _newly(path, given))
            try:
                settings = stored(text, given)
            except SettingsError as error:
                raise SettingsError(f"{path}: {error}") from error
            if warm:
                rehearse(settings)
            return cls(journal, settings, snapshot_every=snapshot_every, verify=verify, clock=clock)
        except BaseException:
            journal.close()
            raise

    # deciding and learning

    def decide(self, arms: Arms) -> Decision:
        """Choose one of `arms`: K rows of d features, or a mapping from the names of arms to their features.

        Local and immediate. The arms are kept until the reward has come or the decision has expired (8 K d bytes), the
        features of the chosen one until they are forgotten.
        """
        names, shown = menu(arms, self.settings)
        tag = self._tags.getrandbits(63)
        with self._writing():
            self._ahead = True
            pick = self._replica.decide(shown)
            entry = self._replica.books.entry
            name = None if names is None else names[pick]
            self._journal.decide(entry, self._clock(), tag, pick, name, shown)
        return Decision(named(entry, tag), pick if name is None else name, pick)

    def reward(self, decision: str, value: float) -> bool:
        """Tell the reward of a decision by its id; whether it was counted now, or (False) had been already.

        Rewards may come late, in any order and more than once. Another value for the same decision raises
        `ConflictError`, an id that is not on record `UnknownDecisionError`, an expired decision `ExpiredError`.
        """
        return self.rewards([(decision, value)]) == 1

    def rewards(self, told: Rewards) -> int:
        """Tell many rewards at once, in the given order: all are taken in, or none; how many were not known before."""
        outcomes = self._tell(told, together=True)
        for outcome in outcomes:
            if isinstance(outcome, AgentError):
                raise outcome
        return sum(outcome is True for outcome in outcomes)

    def rewards_apart(self, told: Rewards) -> list[bool | AgentError]:
        """Tell many rewards at once, in the given order, each on its own: one that is refused does not hold up the
        others. For each whether it was counted now, or had been already, or why it is refused.
        """
        return self._tell(told, together=False)

    # the federation

    def calling(self) -> bool:
        """Whether the agent asks the server for a conversation."""
        with self._reading():
            return bool(self._replica.population.calling()[0])

    def answer(self, letter: bytes, conversation: str, turn: int) -> bytes | None:
        """What the agent answers to a server's `letter`, the `turn`-th of a `conversation`; None: nothing.

        Letters are what `Wire.encode` makes of the messages that the algorithm declares. The same turn of the same
        conversation is answered once: asked again, the agent sends the same reply and changes nothing, so that a
        server may repeat what was lost on the way. Another letter under the same turn raises `ConflictError`, bytes
        that the algorithm cannot take in `LetterError`. Replies of the last two conversations are kept; a letter of an
        older one, which no server repeats, may be refused with `ConflictError`.
        """
        check_text("the name of a conversation", conversation)
        if not 0 <= turn <= _LAST_TURN:
            raise InputError(f"turns are counted from 0 (got {turn})")
        with self._writing():
            known = self._journal.reply_to(conversation, turn, letter)
            if known is not None:
                if not known.same:
                    raise ConflictError(f"turn {turn} of conversation {conversation!r} was another letter")
                if not known.kept:
                    raise ConflictError(f"turn {turn} of conversation {conversation!r} was answered long ago")
                return known.reply
            request = self._replica.read(letter)
            at = self._clock()
            self._ahead = True
            reply = self._replica.answer(request, at)
            self._journal.answer(self._replica.books.entry, at, conversation, turn, letter, reply)
        return reply

    @property
    def synchronised_at(self) -> datetime | None:
        """When the server last spoke with this agent; None before the first time."""
        with self._reading():
            return _moment(self._replica.books.synchronised_at)

    # looking

    def status(self) -> Status:
        """How the agent is getting on."""
        with self._reading():
            counters = self._journal.counts(self._expired_before(self._clock()))
            books, population = self._replica.books, self._replica.population
            return Status(
                decisions=books.decisions,
                rewards=books.rewards,
                awaiting=books.decisions - books.rewards - counters["expired"] - counters["forgotten"],
                expired=counters["expired"],
                late=counters["late"],
                letters=books.letters,
                synchronised_at=_moment(books.synchronised_at),
                calling=bool(population.calling()[0]),
                level=_told_by(population, "urgency") if self.algorithm.about.says else None,
                spent=_told_by(population, "spent"),
            )

    def state(self) -> State:
        """Everything the agent knows, as named arrays: the state of its population of one."""
        with self._reading():
            return self._replica.population.state()

    @property
    def path(self) -> Path:
        """Its file."""
        return Path(self._journal.path)

    @property
    def algorithm(self) -> Algorithm:
        """Its algorithm."""
        return self.settings.algorithm

    @property
    def problem(self) -> Problem:
        """What its algorithm knows of the problem."""
        return self.settings.problem

    # upkeep

    def forget(self, before: datetime | float) -> int:
        """Remove the raw observations of all decisions taken `before` a time; how many decisions that were.

        Features, rewards and letters are deleted, and their bytes overwritten: afterwards they are in none of the
        agent's files (copies that a file system or a backup keeps are beyond its reach). What was learned from them
        stays: the state is saved first. A decision that still awaits its reward is forgotten like any other; its reward
        is refused from then on. `before` is a datetime with a time zone, or seconds since 1970.

        Some algorithms, such as those of the generalized linear family, learn by keeping observations. For them this
        raises `CannotForgetError`, and nothing is removed.
        """
        limit = seconds(before)
        self._check_usable()
        if self._replica.keeps_observations():
            raise CannotForgetError(
                f"{self.algorithm.about.name} keeps its observations as part of what it has learned; none was removed"
            )
        with self._lock:
            with self._writing():
                self._keep_snapshot()
                removed = self._journal.forget(limit)
            with translated(self._journal.path):
                self._journal.purge()
        return removed

    def close(self) -> None:
        """Save the state whole and let go of the file. Nothing depends on it: what was acknowledged is safe anyway."""
        if self._closed or self._process != os.getpid():
            return
        with self._lock:
            with suppress(StorageError, ClosedError), self._writing():
                self._keep_snapshot()
            self._closed = True
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # transactions

    def _writing(self) -> AbstractContextManager[None]:
        """Alone with the newest state; what is done inside lasts, or has not happened."""
        return self._transaction(writing=True)

    def _reading(self) -> AbstractContextManager[None]:
        """With the newest state."""
        return self._transaction(writing=False)

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[None]:
        # before the lock is taken, too: a lock that was held during a fork is never released
        self._check_usable()
        journal = self._journal
        with self._lock:
            self._check_usable()
            try:
                journal.begin(writing=writing)
                self._catch_up()
                yield
                journal.commit()
                self._ahead = False
            except DatabaseErrors as error:
                raise storage_error(journal.path, error) from error
            finally:
                journal.rollback()
            if writing and self._replica.books.entry - self._snapshot_at >= self._snapshot_every:
                # what was asked for is done; if there is no room to save the state, the journal still has it
                with suppress(StorageError), self._writing():
                    self._keep_snapshot()

    def _check_usable(self) -> None:
        if self._process != os.getpid():
            raise ClosedError("this agent belongs to the process that was forked; open it anew here")
        if self._closed:
            raise ClosedError("this agent was closed")

    def _catch_up(self) -> None:
        """Do what other processes have done; start from the file if memory cannot be relied on."""
        version = self._journal.version()
        if version == self._version and not self._ahead:
            return
        self._snapshot_at = self._journal.newest_snapshot()
        try:
            if self._ahead or self._snapshot_at > self._replica.books.entry:
                self._replica = Replica(self.settings, self._journal.snapshot())
            self._ahead = True
            for event in self._journal.events(self._replica.books.entry):
                self._replica.repeat(event, verify=self._verify)
        except ReplayError as error:
            raise ReplayError(f"{self._journal.path}: {error}") from error
        self._ahead = False
        self._version = version

    def _keep_snapshot(self) -> None:
        self._journal.keep(self._replica.snapshot(), self._expired_before(self._clock()))
        self._snapshot_at = self._replica.books.entry

    # rewards

    def _tell(self, told: Rewards, *, together: bool) -> list[bool | AgentError]:
        """One transaction for all, whatever is refused; `together`, nothing is counted if anything is refused."""
        fresh: dict[int, tuple[Decided, float]] = {}
        outcomes: list[bool | AgentError] = []
        with self._writing():
            at = self._clock()
            for name, value in told.items() if isinstance(told, Mapping) else told:
                try:
                    outcomes.append(self._is_fresh(name, value, at, fresh))
                except StorageError:
                    raise
                except AgentError as error:
                    outcomes.append(error)
            late = sum(isinstance(outcome, ExpiredError) for outcome in outcomes)
            if late:
                self._journal.count("late", late)
            if not together or all(isinstance(outcome, bool) for outcome in outcomes):
                for decided, reward in fresh.values():
                    self._ahead = True
                    self._replica.learn(decided, reward)
                    self._journal.reward(self._replica.books.entry, at, decided.entry, reward)
        return outcomes

    def _is_fresh(self, name: str, value: float, at: float, fresh: dict[int, tuple[Decided, float]]) -> bool:
        """Whether a reward has to be counted, and if so put it to those that are `fresh`; raises why it cannot be."""
        entry, tag = parsed(name)
        value = reward_value(value, self.settings)
        found = self._journal.find(entry)
        if found is None or found.tag != tag:
            raise UnknownDecisionError(f"no decision {name!r} is on record: never taken here, or forgotten")
        if found.reward is not None:
            _agree(name, found.reward, value)
            return False
        if found.awaiting is None or self._has_expired(found.awaiting, at):
            raise ExpiredError(
                f"decision {name} no longer awaits a reward (expire_after is {self.settings.expire_after} seconds)"
            )
        new = entry not in fresh
        _agree(name, fresh.setdefault(entry, (found.awaiting, value))[1], value)
        return new

    def _has_expired(self, decided: Decided, now: float) -> bool:
        limit = self._expired_before(now)
        return limit is not None and decided.at < limit

    def _expired_before(self, now: float) -> float | None:
        after = self.settings.expire_after
        return None if after is None else now - after


def _has_content(path: str | os.PathLike[str]) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


def _newly(path: str | os.PathLike[str], given: Mapping[str, Any]) -> str:
    """The settings of a new agent, which have been tried."""
    if "algorithm" not in given or "dim" not in given:
        raise SettingsError(f"there is no agent in {path}; a new one needs algorithm= and dim=")
    settings = made(given)
    settings.population()
    return settings.text()


def _agree(decision: str, counted: float, value: float) -> None:
    if counted != value:
        raise ConflictError(f"decision {decision} was rewarded with {counted:g} before, now with {value:g}")


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _told_by(population: object, name: str) -> float | None:
    """The first entry of what the method `name` of a population returns; None if it has no such method."""
    method = getattr(population, name, None)
    return None if method is None else float(method()[0])
