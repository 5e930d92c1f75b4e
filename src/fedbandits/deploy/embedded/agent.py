"""The agent that a product embeds: decisions at once, rewards whenever they come, nothing lost in between."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, Self

from fedbandits.contract.arrays import FloatArray, State
from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.embedded.answering import Answering, check_turn
from fedbandits.deploy.embedded.deciding import Deciding
from fedbandits.deploy.embedded.decision import Decision
from fedbandits.deploy.embedded.episodes import Episodes, check_episode
from fedbandits.deploy.embedded.importing import Importing, read_log
from fedbandits.deploy.embedded.inputs import Arms, Menu, NamesOfArms, check_person, menu, room_in, seconds
from fedbandits.deploy.embedded.logged import Logged, page
from fedbandits.deploy.embedded.places import Places, unit
from fedbandits.deploy.embedded.pondering import ponder
from fedbandits.deploy.embedded.population import ALONE, population_with_secret
from fedbandits.deploy.embedded.rehearsal import rehearse
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.embedded.rewarding import Rewarding, ToldRewards
from fedbandits.deploy.embedded.status import CLOCK_MILLISECONDS, Status, status_of, synchronised_at
from fedbandits.deploy.embedded.transactions import Transactions
from fedbandits.deploy.errors import (
    AgentError,
    CannotForgetError,
    InputError,
    SettingsError,
    translated,
)
from fedbandits.deploy.former_settings import in_python
from fedbandits.deploy.known_facts import read_facts
from fedbandits.deploy.settings import Settings, has_other_habits, made, stored
from fedbandits.deploy.storage.journal import Journal

if TYPE_CHECKING:
    from fedbandits.contract.algorithm import Algorithm
    from fedbandits.contract.facts import Fact
    from fedbandits.contract.problem import Problem


@dataclass(frozen=True, slots=True)
class Moment:
    """Within a transaction that writes: the newest state, the episodes, and what time it is."""

    replica: Replica
    episodes: Episodes
    now: float


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
        self._random = random.Random()  # seeded by the operating system
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
        features: Sequence[str] | None = None,
        arm_names: Sequence[str] | None = None,
        missing: Literal["refused", "zero"] | None = None,
        explore: float | None = None,
        keep_shown: bool | None = None,
        durable: bool = True,
        timeout: float = 10.0,
        snapshot_every: int = 1000,
        verify: bool = True,
        warm: bool = True,
        clock: Callable[[], float] = time.time,
        **unknown: Never,
    ) -> Self:
        """The agent in the file `path`, which is made if there is none.

        A new agent needs `algorithm` and `dim`, the number d of features of an arm, or their names. The settings up to
        `keep_shown` are written into the file: an existing agent is opened by its path alone, and whatever else is
        given must be what it was made with; the last three may be given anew.

        - `facts`: what is known of the problem, as in `[Noise(0.5), Range(0, 1)]`; see `fedbandits.facts`. A reward
          outside of the `Range` is refused.
        - `arms`: how many arms every decision is among; by default that may vary.
        - `agents` (1), `identity` (0), `horizon` (10 000), `seed` (0): how many agents the federation has, which of
          them this is, how many decisions it plans for, and what its random choices derive from. They are those of
          agent `identity` in `simulate(..., seed=seed)`, and different for different identities. Noise that protects
          people does not derive from it, but from a key in the file.
        - `common` (0): what the draws derive from that all agents of a federation and its server have in common.
        - `expire_after`: seconds, or a timedelta, after which a decision no longer awaits its reward; by default never.
          Each expires by the time it is stamped with: one that a wrong clock stamped ahead waits for longer. Those of
          an episode wait as long as it does, which is this long after its last decision (`episodes`).
        - `packed`: whether replies carry symmetric matrices as triangles.
        - `features`: names of the d features, in place of `dim`; arms may then be told as `{"age": 0.3, ...}`.
        - `arm_names`: names of the arms of an agent that knows arms by their place, in place of `dim`; see `places`.
        - `missing` ("refused"): "zero" lets features that are not told of an arm count as 0.
        - `explore` (0): with this probability the arm is drawn uniformly, so that what was logged can be used to judge
          other rules later; see `exploring`. Regret grows by about this share of what random choices cost.
        - `keep_shown` (False): the arms that a decision was among are kept after its reward, too, until they are
          forgotten. Another 8 K d bytes for each decision.

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
            "features": None if features is None else tuple(features),
            "arm_names": None if arm_names is None else tuple(arm_names),
            "missing": missing,
            "explore": explore,
            "keep_shown": keep_shown,
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
            if has_other_habits(text, settings):
                with translated(path):
                    journal.revise(settings.text())
            if warm:
                rehearse(settings)
            return cls(journal, settings, snapshot_every=snapshot_every, verify=verify, clock=clock)
        except BaseException:
            journal.close()
            raise

    # deciding and learning

    def decide(self, arms: Arms, who: str | None = None, episode: str | None = None) -> Decision:
        """Choose one of `arms`: K rows of d features, or a mapping from the names of arms to their features.

        The features of an arm are d numbers, or numbers by the names that were declared (`features`); agents that know
        arms by their place take a list of names (`places`). `who` the decision is about is recorded with it.

        Algorithms that plan decide in episodes, and `episode` names the one that this is the next decision of; there
        may be many at the same time, and the first decision under a name begins one. What the arms of an episode's next
        decision are is where the one before has led. See `episodes` for when one is over, learned, or expires.

        Local and immediate. The arms are kept until the reward has come or the decision has expired (8 K d bytes), in
        an episode until it is over; the features of the chosen one until they are forgotten.
        """
        asked = menu(arms, self.settings)
        check_person(who)
        check_episode(episode)
        with self._writing() as moment:
            return self._deciding(moment).decide(asked, who, episode)

    def decide_many(
        self,
        menus: Iterable[Arms],
        who: Iterable[str | None] | None = None,
        episodes: Iterable[str | None] | None = None,
    ) -> list[Decision]:
        """As `decide` for each of `menus`, in their order: all are decided, or none; one wait for the disk.

        `who` are the persons that they are about, one for each, and `episodes` those that they are part of. All are
        decided on what is known now: no reward comes in between.
        """
        asked: list[Menu | NamesOfArms] = []
        for number, arms in enumerate(menus):
            try:
                asked.append(menu(arms, self.settings))
            except InputError as error:
                raise InputError(f"decision {number}: {error}") from error
        persons = [None] * len(asked) if who is None else list(who)
        if len(persons) != len(asked):
            raise InputError(f"{len(asked)} decisions are about {len(persons)} persons; name one for each, or none")
        names = [None] * len(asked) if episodes is None else list(episodes)
        if len(names) != len(asked):
            raise InputError(f"{len(asked)} decisions are part of {len(names)} episodes; name one for each, or none")
        for person, name in zip(persons, names, strict=True):
            check_person(person)
            check_episode(name)
        with self._writing() as moment:
            deciding = self._deciding(moment)
            return [deciding.decide(*one) for one in zip(asked, persons, names, strict=True)]

    def propose(self, arms: Arms, low: Sequence[float], high: Sequence[float], count: int = 1) -> FloatArray | None:
        """(count, d) points of the box from `low` to `high` (d,) that the agent would like to choose from, where arms
        may be any points of it: it climbs its own index from the best of `arms`, at most as many as these are. None
        where its algorithm has no index to climb.

        Local, immediate, and on no record. Show them to `decide`, with those of the others that may still be chosen.
        """
        asked = menu(arms, self.settings)
        if not isinstance(asked, Menu):
            raise InputError("arms that are known by their names alone lie in no box")
        room = room_in(low, high, count, asked)
        with self._transactions.reading() as replica:
            try:
                proposed = replica.population.propose(ALONE, asked.shown[None], room)
            except ValueError as error:
                raise InputError(str(error)) from error
        return None if proposed is None else room.fit(ALONE, proposed)[0]

    def finish(self, episode: str) -> bool:
        """The episode is over, before it had all its stages; whether it was under way, or (False) over already.

        It is learned when all its rewards are there. A name that is not on record raises `UnknownEpisodeError`.
        """
        check_episode(episode)
        with self._writing() as moment:
            return moment.episodes.finish(episode)

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

    def answer(
        self, letter: bytes, conversation: str, turn: int, verdicts: Sequence[Verdict] | None = None
    ) -> bytes | None:
        """What the agent answers to a server's `letter`, the `turn`-th of a `conversation`; None: nothing.

        Letters are what `Wire.encode` makes of the messages that the algorithm declares. The same turn of the same
        conversation is answered once: asked again, the agent sends the same reply and changes nothing, so that a
        server may repeat what was lost on the way. Another letter under the same turn raises `ConflictError`, bytes
        that the algorithm cannot take in `LetterError`. Replies of the last two conversations are kept; a letter of an
        older one, which no server repeats, may be refused with `ConflictError`.

        `verdicts` come with the letter: what became of earlier replies that handed something over. What was declined is
        the agent's again, and goes with the next such reply (`acknowledgements`); replies are kept until that is known.
        None is for a server that never tells: it is taken to have taken in everything.

        Answers that go over everything that was observed are found while decisions go on (`pondering`).
        """
        check_turn(conversation, turn)
        pondered = ponder(self._transactions, self._journal, letter, conversation, turn)
        with self._writing() as moment:
            answering = Answering(self._journal, moment.replica, moment.now)
            return answering.answer(letter, conversation, turn, verdicts, pondered)

    def unacknowledged(self) -> list[tuple[str, int]]:
        """Conversations and turns of replies that handed something over of which no server has said what became."""
        with self._transactions.reading():
            return self._journal.unacknowledged()

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
            episodes = self._journal.open_episodes() if replica.population.stages is not None else None
            return status_of(replica, counters, episodes, talks=bool(self.algorithm.about.says))

    def note_clock(self, ahead: float) -> None:
        """The server says that the clock of this machine is `ahead` of its own by so many seconds (below zero: behind),
        as far as it can tell: for `status`. It changes nothing else.
        """
        with self._transactions.writing():
            self._journal.note(CLOCK_MILLISECONDS, round(1000 * ahead))

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

    def log(self, *, shown: bool = False) -> Iterator[Logged]:
        """All decisions that are on record, in order: what evaluation needs; with the arms that were `shown`, as far as
        they are kept. Decisions that are taken meanwhile may be among them.
        """
        after: int | None = 0
        while after is not None:
            with self._transactions.reading():
                lines, after = page(self._journal, self.settings.dim, after, shown=shown)
            yield from lines

    # upkeep

    def import_log(self, content: bytes) -> int:
        """Begin from history: learn from the observations in a CSV file; how many they were.

        See `importing` for its columns. All are taken in, or none; the same content is taken in once (`ConflictError`).
        """
        observations = read_log(content, self.settings)
        with self._transactions.writing() as replica:
            now = self._clock()
            Importing(self._journal, self.settings, replica, now, self._random).take_in(content, observations)
        return len(observations)

    def retire(self, name: str, *, drop: bool = False) -> None:
        """Let an arm that is known by its name alone be shown no more; `drop` what was learned of it.

        Its place is given to another name only after that: rewards of decisions that took it are refused from then on.
        Raises `InputError` for names that have no place, and where the algorithm cannot drop what it knows of an arm.
        """
        with self._transactions.writing() as replica:
            place = Places(self._journal, self.settings).retire(name, free=drop)
            if drop:
                replica.drop_arm(place)
                self._journal.drop_awaiting(unit(place, self.settings))
                self._transactions.save(replica)

    def forget(self, before: datetime | float | None = None, *, who: str | None = None) -> int:
        """Remove the raw observations of all decisions taken `before` a time, or about a person (`who`), or both; how
        many decisions that were.

        Features and rewards are deleted: afterwards they are in none of the agent's files (copies that a file system or
        a backup keeps are beyond its reach). What was learned from them stays: the state is saved first. A decision
        that still awaits its reward is forgotten like any other; its reward is refused from then on. An open episode is
        forgotten as a whole if any of its decisions is. `before` is a datetime with a time zone, or seconds since 1970.

        Letters from before that time are deleted, too, but for replies that a server may ask for again (those of the
        last two conversations) and those that the agent would have to take back (not acknowledged yet). They hold what
        the algorithm declares as its messages: sums over observations, as a rule; an algorithm that sends observations
        as they are has them in these replies until others have taken their place.

        Some algorithms, such as those of the generalized linear family and those that plan, learn by keeping
        observations. If any of what is meant was learned, this raises `CannotForgetError` for them, and nothing is
        removed. Where the catalogue says *raw*, as with `dis-kernel-ucb` and the dictionary of `approx-dis-kernel-ucb`,
        the file also holds what others have observed, and their files hold what was observed here.
        """
        if before is None and who is None:
            raise InputError("forget: needs a time (before=), a person (who=), or both")
        limit = None if before is None else seconds(before)
        with self._transactions.alone():
            with self._transactions.writing() as replica:
                if replica.keeps_observations() and self._journal.has_learned(limit, who):
                    about = self.algorithm.about
                    spread = "; it also sends them as they are, so that others hold them, and this file those of others"
                    raw = any(item.raw for said in about.says for item in said.fields)
                    raise CannotForgetError(
                        f"{about.name} keeps its observations as part of what it has learned; none was removed"
                        f"{spread if raw else ''}"
                    )
                self._transactions.save(replica)
                removed = self._journal.forget(limit, who)
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

    @contextmanager
    def _writing(self) -> Iterator[Moment]:
        """A transaction that writes, at one moment, by which episodes have expired or not."""
        with self._transactions.writing() as replica:
            now = self._clock()
            episodes = Episodes(self._journal, self.settings, replica, now)
            episodes.close_expired()
            yield Moment(replica, episodes, now)

    def _deciding(self, moment: Moment) -> Deciding:
        return Deciding(self._journal, self.settings, moment.replica, moment.episodes, moment.now, self._random)

    def _tell(self, told: ToldRewards, *, together: bool) -> list[bool | AgentError]:
        """One transaction for all, whatever is refused."""
        with self._writing() as moment:
            rewarding = Rewarding(self._journal, self.settings, moment.replica, moment.episodes, moment.now)
            return rewarding.take_in(told, together=together)

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
    if "algorithm" not in given or not {"dim", "features", "arm_names"} & given.keys():
        raise SettingsError(f"there is no agent in {path}; a new one needs algorithm= and dim=, or names of features")
    settings = made(given)
    population_with_secret(settings)
    return settings.text()
