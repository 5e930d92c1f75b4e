"""`fedbandits agent migrate`: an agent's file whose arms have one feature more, or one less, or names.

The file is copied first. Then, in one transaction, settings, state and the arms of decisions that await their reward
become those of the new features; what is about to be written is tried before it is. Other processes have to be stopped:
one that has the file open notices, and refuses to go on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from fedbandits.contract.arrays import FloatArray, State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.errors import hint
from fedbandits.contract.population import Population
from fedbandits.contract.state import Stateful, from_bytes, to_bytes
from fedbandits.deploy.backup import back_up
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.embedded.inputs import FLOATS
from fedbandits.deploy.embedded.population import ALONE, population_with_secret
from fedbandits.deploy.embedded.reshaping import with_feature, without_feature
from fedbandits.deploy.errors import InputError, SettingsError, StorageError, translated
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.digests import digest
from fedbandits.deploy.storage.entries import Snapshot
from fedbandits.deploy.storage.journal import Journal

_TRIED = 16
"""Arms on which the new agent is compared with the old one."""


@dataclass(frozen=True)
class Change:
    """One change of features: names for those that have none, one more at the end, or one less."""

    name: tuple[str, ...] | None = None
    add: str | None = None
    drop: str | None = None

    def __post_init__(self) -> None:
        if sum(told is not None for told in (self.name, self.add, self.drop)) != 1:
            raise SettingsError(
                "migrate: one of --add-feature, --drop-feature and --name-features is needed, and one only"
            )

    def of_settings(self, settings: Settings) -> Settings:
        """`settings` as they are afterwards."""
        features = settings.features
        if self.name is not None:
            if features is not None:
                raise SettingsError(f"features have names already: {', '.join(features)}")
            return _changed(settings, self.name)
        if features is None:
            raise SettingsError(
                "features of this agent have no names; give them names first, with --name-features a,b,c"
            )
        if self.add is not None:
            if self.add in features:
                raise SettingsError(f"there is a feature {self.add!r} already")
            return _changed(settings, (*features, self.add))
        if self.drop not in features:
            raise SettingsError(f"there is no feature {self.drop!r}; {hint(str(self.drop), features)}")
        if len(features) == 1:
            raise SettingsError(f"{self.drop!r} is the only feature")
        return _changed(settings, tuple(name for name in features if name != self.drop))

    def of_state(self, state: State, settings: Settings, made: Callable[[Settings], Stateful]) -> State:
        """`state` of agents or a server of `settings` as it is afterwards; `made` makes those that know nothing."""
        if self.name is not None:
            return state
        before, after = made(settings), made(self.of_settings(settings))
        if self.drop is not None:
            return without_feature(state, before, after, self._place(settings), settings.dim)
        return with_feature(state, before, after)

    def of_features(self, array: FloatArray, settings: Settings) -> FloatArray:
        """Numbers (..., d) by feature as they are afterwards."""
        if self.name is not None:
            return array
        if self.drop is not None:
            return np.delete(array, self._place(settings), axis=-1)
        return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1)

    def _place(self, settings: Settings) -> int:
        return (settings.features or ()).index(str(self.drop))


@dataclass(frozen=True, slots=True)
class Migrated:
    """What has become of an agent: its features, the copy of its file as it was, and by how much the scores of arms
    have moved, in units of the largest: 0 but for rounding, unless widths depend on the number of features. None where
    that cannot be compared.
    """

    features: tuple[str, ...]
    copy: Path
    moved: float | None


def migrate(
    path: str | PathLike[str], change: Change, copy: str | PathLike[str], *, assume_accepted: bool = False
) -> Migrated:
    """Change the features of the agent in the file `path`, of which `copy` is made first.

    A hand-over of which no server has said what became of it is about the old features: such an agent is refused,
    unless it may be taken to be accepted.
    """
    with Agent.open(path, warm=False) as agent:
        settings, pending = agent.settings, agent.unacknowledged()
    after = change.of_settings(settings)
    if pending and not assume_accepted:
        raise InputError(
            f"{len(pending)} replies handed something over of which the server has not said what became of it; let the "
            "agent talk to it once more, or take them to be accepted with --assume-accepted"
        )
    back_up(path, copy)
    journal = Journal(path, durable=True, timeout=10.0)
    try:
        with translated(path):
            journal.begin(writing=True)
            try:
                moved = _rewrite(journal, change, settings, after)
                journal.commit()
            finally:
                journal.rollback()
    finally:
        journal.close()
    return Migrated(after.features or (), Path(copy), moved)


def _rewrite(journal: Journal, change: Change, settings: Settings, after: Settings) -> float | None:
    snapshot = journal.snapshot()
    if any(True for _ in journal.events(0 if snapshot is None else snapshot.entry)):
        raise StorageError(f"{journal.path}: somebody else uses it; stop them first")
    moved: float | None = 0.0
    if snapshot is not None:
        state = change.of_state(from_bytes(snapshot.state), settings, _new)
        new = _new(after)
        new.load(state)
        moved = _moved(change, settings, from_bytes(snapshot.state), new)
        counts = json.loads(snapshot.counts) | {"entry": snapshot.entry + 1, "handed": {}}
        journal.keep(Snapshot(snapshot.entry + 1, json.dumps(counts), to_bytes(new.state())), None)
        journal.count("removed", 1)  # the entry of the new snapshot is in no table
    for table in ("shown", "kept"):
        _rewrite_arms(journal, table, change, settings)
    for conversation, turn in journal.unacknowledged():
        held = journal.hand_over(conversation, turn)
        if held is not None:
            journal.settle(held.entry, accepted=True)
    journal.describe(after.text())
    return moved


def _rewrite_arms(journal: Journal, table: str, change: Change, settings: Settings) -> None:
    db = journal.connection
    for decision, at, names, arms in db.execute(f"SELECT decision, at, names, arms FROM {table}").fetchall():
        rows = np.frombuffer(arms, FLOATS).reshape(-1, settings.dim)
        new = np.ascontiguousarray(change.of_features(rows, settings), dtype=FLOATS).tobytes()
        db.execute(
            f"UPDATE {table} SET arms = ?, digest = ? WHERE decision = ?",
            (new, digest(decision, at, names, new), decision),
        )


def _moved(change: Change, settings: Settings, state: State, new: Population) -> float | None:
    """By how much scores differ on random arms, the feature that is new or gone being 0."""
    old = _new(settings)
    old.load(state)
    arms = np.random.default_rng(0).normal(size=(_TRIED, settings.dim)) / np.sqrt(settings.dim)
    if change.drop is not None:
        return None  # what was learned of the others changes, too
    try:
        before = old.scores(ALONE, arms[None])
        after = new.scores(ALONE, change.of_features(arms, settings)[None])
    except ValueError:  # arms that are known by their place
        return None
    if before is None or after is None or not np.isfinite(before).all():
        return None
    return float(np.abs(after - before).max() / max(np.abs(before).max(), 1.0))


def _new(settings: Settings) -> Population:
    return population_with_secret(settings)[0]


def _changed(settings: Settings, features: Sequence[str]) -> Settings:
    try:
        return dataclasses.replace(settings, features=tuple(features), dim=len(features))
    except ConfigError as error:
        raise SettingsError(str(error)) from None
