"""The agent that a product embeds: decisions at once, rewards whenever they come, nothing lost in between."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

from fedbandits.contract.arrays import State
from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.deploy.decision import Decision, named
from fedbandits.deploy.errors import (
    AgentError,
    CannotForgetError,
    ConflictError,
    InputError,
    SettingsError,
    translated,
)
from fedbandits.deploy.former_settings import in_python
from fedbandits.deploy.inputs import Arms, check_text, menu, seconds
from fedbandits.deploy.journal import Journal
from fedbandits.deploy.known_facts import read_facts
from fedbandits.deploy.population import population_with_secret
from fedbandits.deploy.rehearsal import rehearse
from fedbandits.deploy.rewarding import Rewarding, ToldRewards
from fedbandits.deploy.settings import Settings, made, stored
from fedbandits.deploy.status import Status, status_of, synchronised_at
from fedbandits.deploy.transactions import Transactions

if TYPE_CHECKING:
    from fedbandits.contract.algorithm import Algorithm
    from fedbandits.contract.facts import Fact
    from fedbandits.contract.problem import Problem

_LAST_TURN = 2**63 - 1


class Agent:
    """One agent of a federation, alive in a file.

    The algorithm is the one that the simulator runs, as a population of one. Every call that changes something is
    written to the file before it returns: a process that is killed at any point loses nothing it has acknowledged, and
    a reward told twice is counted once. The file also is the only place of raw observations; what a server gets is what
    the algorithm declares, by `answer`. And it is the only place of the key from which a private algorithm's noise
    comes (`deploy.secret`).

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
        self._clock = clock
        self._tags = random.Random()  # seeded by the operating system
        self._transactions = Transactions(
            journal, settings, self._expired_before, snapshot_every=snapshot_every, verify=verify
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        algorithm: Algorithm | None = None,
        dim: int | None = None,
        *,
        facts: Iterable[Fact] | None = None,
        arms: int | None = None,
        agents: int | None = None,
        identity: int | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        common: int | None = None,
        expire_after: float | timedelta | None = None,
        packed: bool | None = None,
        durable: bool = True,
        timeout: float = 10.0,
        snapshot_every: int = 1000,
        verify: bool = True,
        warm: bool = True,
        clock: Callable[[], float] = time.time,
        **unknown: Never,
    ) -> Self:
        """The agent in the file `path`, which is made if there is none.

        A new agent needs `algorithm` and `dim`, the number d of features of an arm. The settings up to `packed` are
        written into the file: an existing agent is opened by its path alone, and whatever else is given must be what it
        was made with.

        - `facts`: what is known of the problem, as in `[Noise(0.5), Range(0, 1)]`; see `fedbandits.facts`. A reward
          outside of the `Range` is refused.
        - `arms`: how many arms every decision is among; by default that may vary.
        - `agents` (1), `identity` (0), `horizon` (10 000), `seed` (0): how many agents the federation has, which of
          them this is, how many decisions it plans for, and what its random choices derive from. They are those of
          agent `identity` in `simulate(..., seed=seed)`, and different for different identities. Noise that protects
          people does not derive from it, but from a key in the file.
        - `common` (0): what the draws derive from that all agents of a federation and its server have in common.
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
        _refuse(unknown)
        if facts is not None:
            facts = _read(facts)
        if isinstance(expire_after, timedelta):
            expire_after = expire_after.total_seconds()
        given = {
            "algorithm": algorithm,
            "dim": dim,
            "facts": facts,
            "arms": arms,
            "agents": agents,
            "identity": identity,
            "horizon": horizon,
            "seed": seed,
            "common": common,
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
        with self._transactions.writing() as replica:
            pick = replica.decide(shown)
            entry = replica.counts.entry
            name = None if names is None else names[pick]
            self._journal.decide(entry, self._clock(), tag, pick, name, shown)
        return Decision(named(entry, tag), pick if name is None else name, pick)

    def reward(self, decision: str, value: float) -> bool:
        """Tell the reward of a decision by its id; whether it was counted now, or (False) had been already.

        Rewards may come late, in any order and more than once. Another value for the same decision raises
        `ConflictError`, an id that is not on record `UnknownDecisionError`, an expired decision `ExpiredError`.
        """
        return self.rewards([(decision, value)]) == 1

    def rewards(self, told: ToldRewards) -> int:
        """Tell many rewards at once, in the given order: all are taken in, or none; how many were not known before."""
        outcomes = self._tell(told, together=True)
        for outcome in outcomes:
            if isinstance(outcome, AgentError):
                raise outcome
        return sum(outcome is True for outcome in outcomes)

    def rewards_apart(self, told: ToldRewards) -> list[bool | AgentError]:
        """Tell many rewards at once, in the given order, each on its own: one that is refused does not hold up the
        others. For each whether it was counted now, or had been already, or why it is refused.
        """
        return self._tell(told, together=False)

    # the federation

    def calling(self) -> bool:
        """Whether the agent asks the server for a conversation."""
        with self._transactions.reading() as replica:
            return bool(replica.population.calling()[0])

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
        with self._transactions.writing() as replica:
            known = self._journal.reply_to(conversation, turn, letter)
            if known is not None:
                if not known.same:
                    raise ConflictError(f"turn {turn} of conversation {conversation!r} was another letter")
                if not known.kept:
                    raise ConflictError(f"turn {turn} of conversation {conversation!r} was answered long ago")
                return known.reply
            request = replica.read(letter)
            at = self._clock()
            reply = replica.answer(request, at)
            self._journal.answer(replica.counts.entry, at, conversation, turn, letter, reply)
        return reply

    @property
    def synchronised_at(self) -> datetime | None:
        """When the server last spoke with this agent; None before the first time."""
        with self._transactions.reading() as replica:
            return synchronised_at(replica)

    # looking

    def status(self) -> Status:
        """How the agent is getting on."""
        with self._transactions.reading() as replica:
            counters = self._journal.counts(self._expired_before())
            return status_of(replica, counters, talks=bool(self.algorithm.about.says))

    def state(self) -> State:
        """What the agent knows, as named arrays: the state of its population of one, without the key of its noise."""
        with self._transactions.reading() as replica:
            return replica.public_state()

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
        with self._transactions.alone():
            with self._transactions.writing() as replica:
                if replica.keeps_observations():
                    raise CannotForgetError(
                        f"{self.algorithm.about.name} keeps its observations as part of what it has learned; none was "
                        "removed"
                    )
                self._transactions.save(replica)
                removed = self._journal.forget(limit)
            with translated(self._journal.path):
                self._journal.purge()
        return removed

    def close(self) -> None:
        """Save the state whole and let go of the file. Nothing depends on it: what was acknowledged is safe anyway."""
        self._transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _tell(self, told: ToldRewards, *, together: bool) -> list[bool | AgentError]:
        """One transaction for all, whatever is refused."""
        with self._transactions.writing() as replica:
            return Rewarding(self._journal, self.settings, replica, self._clock()).take_in(told, together=together)

    def _expired_before(self) -> float | None:
        after = self.settings.expire_after
        return None if after is None else self._clock() - after


def _refuse(unknown: Mapping[str, Any]) -> None:
    for name, told in unknown.items():
        known = [known for known in Agent.open.__annotations__ if known not in ("unknown", "return")]
        raise SettingsError(f"Agent.open: {in_python(name, told) or f'has no {name!r}; {hint(name, known)}'}")


def _read(facts: Any) -> tuple[Fact, ...]:
    try:
        return read_facts(facts)
    except ConfigError as error:
        raise SettingsError(f"facts: {error}") from None


def _has_content(path: str | os.PathLike[str]) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


def _newly(path: str | os.PathLike[str], given: Mapping[str, Any]) -> str:
    """The settings of a new agent, which have been tried."""
    if "algorithm" not in given or "dim" not in given:
        raise SettingsError(f"there is no agent in {path}; a new one needs algorithm= and dim=")
    settings = made(given)
    population_with_secret(settings)
    return settings.text()
