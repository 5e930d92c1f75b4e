"""Decisions in sequence: episodes, as many as there are patients, each learned whole when it is over.

For agents whose algorithm plans (`Population.stages`, the number H of stages). The rules:

- The h-th decision of an episode is stage h, whatever happens in others meanwhile. After H decisions it has no further
  one: the next decision under its name begins another episode. It can be ended before (`finish`).
- Rewards may come in any order. Once an episode is over and all of them are there, it is learned, stage by stage, in
  the transaction of whatever came last. Nothing of it is learned, or handed over to a server, before that.
- An episode whose last decision was taken more than `expire_after` ago is closed by the next call that writes, whatever
  it is about. What is learned of it are its first decisions, as far as their rewards are there and it is known where
  they led; nobody is told that it ended there (`Population.truncate`). The rest is dropped, and counted.
- All its decisions are about the same person.

What is open is in the file's tables, like decisions that await their reward. That an episode is closed, and how much of
it was learned, is an entry of the journal: whoever does it again neither counts nor looks at a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.embedded.inputs import LONGEST, check_text
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import ConflictError, ExpiredError, InputError, UnknownEpisodeError
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.entries import Decided, Episode
from fedbandits.deploy.storage.history import closing
from fedbandits.deploy.storage.journal import Journal


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a decision stands: in which `stage` of the episode `name`, which may begin with it, and about `who`."""

    name: str
    running: Episode | None
    who: str | None

    @property
    def stage(self) -> int:
        """How many decisions the episode has had."""
        return 0 if self.running is None else self.running.stages


class Episodes:
    """The episodes in `journal`, within a transaction of whoever calls that writes, at one moment, `now`."""

    def __init__(self, journal: Journal, settings: Settings, replica: Replica, now: float) -> None:
        self._journal = journal
        self._settings = settings
        self._replica = replica
        self._now = now
        self._length = replica.population.stages

    def close_expired(self) -> None:
        """Close episodes that have waited for too long, the one that was left first first."""
        if self._length is None or self._settings.expire_after is None:
            return
        for episode in self._journal.open_episodes(self._now - self._settings.expire_after):
            self._close(episode)

    def standpoint(self, name: str | None, who: str | None, shown: FloatArray) -> Standpoint | None:
        """Where a decision among `shown` stands; None if it stands for itself, as it has to without planning."""
        about = self._settings.algorithm.about.name
        if self._length is None:
            if name is not None:
                raise InputError(
                    f"episode: {about} does not plan, each of its decisions stands for itself; leave the episode out, "
                    "or make an agent whose algorithm plans, as fedlsvi-dense does"
                )
            return None
        if name is None:
            raise InputError(f"episode: {about} plans; name the episode of each decision, as in episode='patient-17'")
        if not shown.any():
            raise InputError("arms: all of them are zero; if the episode is over, say so by finish")
        running = self._journal.running(name, self._length)
        if running is None:
            return Standpoint(name, None, who)
        person = self._journal.person(running.first)
        if who not in (None, person):
            raise ConflictError(f"episode {name!r} is about somebody else; an episode is about one person, or nobody")
        return Standpoint(name, running, person)

    def follow(self, decision: int, where: Standpoint) -> None:
        """The decision of an entry was taken there."""
        running = where.running or Episode(decision, where.name, self._now, 0, ended=False)
        at = max(running.at, self._now)  # a clock that was set back lets no episode expire early
        self._journal.put_stage(decision, running.first, running.stages)
        self._journal.put_episode(replace(running, at=at, stages=running.stages + 1))

    def check_awaits(self, name: str, decided: Decided) -> None:
        """Raise `ExpiredError` unless the episode of a decision is open."""
        if decided.episode is not None and self._journal.episode(decided.episode).closed is not None:
            raise ExpiredError(f"decision {name} no longer awaits a reward: its episode was closed")

    def rewarded(self, decided: Decided) -> None:
        """The reward of a decision has come: its episode is learned if that was the last thing it waited for."""
        if decided.episode is not None:
            self._close_if_complete(self._journal.episode(decided.episode))

    def finish(self, name: str) -> bool:
        """The episode is over before it had all its stages; whether it was not before."""
        if self._length is None:
            raise InputError(f"finish: {self._settings.algorithm.about.name} does not plan, and has no episodes")
        running = self._journal.running(name, self._length)
        if running is None:
            if not self._journal.has_episode(name):
                raise UnknownEpisodeError(f"no episode {name!r} is on record: never begun here, or forgotten")
            return False
        over = replace(running, ended=True)
        self._journal.put_episode(over)
        self._close_if_complete(over)
        return True

    def _is_over(self, episode: Episode) -> bool:
        return episode.ended or episode.stages == self._length

    def _close_if_complete(self, episode: Episode) -> None:
        if self._is_over(episode) and self._journal.is_rewarded(episode):
            self._close(episode)

    def _close(self, episode: Episode) -> None:
        """Learn what is known of an episode. Without knowing where it led, nothing is learned of its last decision."""
        journal, replica = self._journal, self._replica
        followed = journal.followed(episode)
        rewards = [reward for _, reward in followed]
        known = rewards.index(None) if None in rewards else len(rewards) - (not self._is_over(episode))
        replica.close(closing(replica.counts.entry + 1, followed, known))
        closed = replace(episode, closed=replica.counts.entry, closed_at=self._now, learned=known)
        journal.put_episode(closed)
        if None in rewards:
            journal.count("expired", rewards.count(None))


def check_episode(name: str | None) -> None:
    """The name of an episode, if there is one, can be written down."""
    if name is None:
        return
    check_text("episode", name)
    if not 1 <= len(name) <= LONGEST:
        raise InputError(f"episode must have 1 to {LONGEST} characters, got {len(name)}")
