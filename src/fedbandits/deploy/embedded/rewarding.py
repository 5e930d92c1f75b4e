"""Rewards: each is counted once, however late it comes and how often it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedbandits.deploy.embedded.decision import parsed
from fedbandits.deploy.embedded.episodes import Episodes
from fedbandits.deploy.embedded.inputs import reward_value
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import AgentError, ConflictError, ExpiredError, StorageError, UnknownDecisionError
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.entries import Decided
from fedbandits.deploy.storage.journal import Journal

ToldRewards = Mapping[str, float] | Iterable[tuple[str, float]]
"""Rewards by the ids of their decisions."""


class Rewarding:
    """Takes in what is told at one moment, `now`, within a transaction that writes to `journal`."""

    def __init__(self, journal: Journal, settings: Settings, replica: Replica, episodes: Episodes, now: float) -> None:
        self._journal = journal
        self._settings = settings
        self._replica = replica
        self._episodes = episodes
        self._now = now
        self._fresh: dict[int, tuple[Decided, float]] = {}
        """By the entry of their decision, rewards that have to be counted."""

    def take_in(self, told: ToldRewards, *, together: bool) -> list[bool | AgentError]:
        """For each reward whether it is counted now, or had been already, or why it is refused; `together`, nothing is
        counted if anything is refused.
        """
        outcomes = [self._outcome(name, value) for name, value in _pairs(told)]
        late = sum(isinstance(outcome, ExpiredError) for outcome in outcomes)
        if late:
            self._journal.count("late", late)
        if not together or all(isinstance(outcome, bool) for outcome in outcomes):
            for decided, reward in self._fresh.values():
                self._replica.learn(decided, reward)
                self._journal.reward(self._replica.counts.entry, self._now, decided.entry, reward)
                self._episodes.rewarded(decided)
        return outcomes

    def _outcome(self, name: str, value: float) -> bool | AgentError:
        try:
            return self._is_fresh(name, value)
        except StorageError:
            raise
        except AgentError as error:
            return error

    def _is_fresh(self, name: str, value: float) -> bool:
        """Whether a reward has to be counted, and if so put it to those that are fresh; raises why it cannot be."""
        entry, tag = parsed(name)
        value = reward_value(value, self._settings)
        found = self._journal.find(entry)
        if found is None or found.tag != tag:
            raise UnknownDecisionError(f"no decision {name!r} is on record: never taken here, or forgotten")
        if found.reward is not None:
            _agree(name, found.reward, value)
            return False
        awaiting, after = found.awaiting, self._settings.expire_after
        alone = awaiting is not None and awaiting.episode is None
        if awaiting is None or (alone and after is not None and awaiting.at < self._now - after):
            raise ExpiredError(f"decision {name} no longer awaits a reward (expire_after is {after} seconds)")
        self._episodes.check_awaits(name, awaiting)
        new = entry not in self._fresh
        _agree(name, self._fresh.setdefault(entry, (awaiting, value))[1], value)
        return new


def _pairs(told: ToldRewards) -> Iterable[tuple[str, float]]:
    return told.items() if isinstance(told, Mapping) else told


def _agree(decision: str, counted: float, value: float) -> None:
    if counted != value:
        raise ConflictError(f"decision {decision} was rewarded with {counted:g} before, now with {value:g}")
