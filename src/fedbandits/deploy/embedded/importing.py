"""Beginning from history: rewards of decisions that were taken before there was an agent, from a CSV file.

Each line is one observation: the features of the arm that was taken, and its reward. Columns:

    reward         required
    features       one column for each, by the names that were declared (`features`), otherwise x0, x1, ...; none for
                   agents that know arms by their place
    arm            the name of the arm; required for agents that know arms by their place
    who            whom the decision was about
    at             when: ISO 8601 with a time zone, or seconds since 1970; the moment of the import if left out
    propensity     with which probability the arm was taken, if that is known

They become entries of the journal like the agent's own, so that they are handed over, done again and forgotten as those
are; they are marked as chosen by others. The agent learns from them as if it had chosen so: estimates do not care who
chose, but guarantees that rest on the agent's own choices do not cover what it learned from choices that depended on
something it does not see.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fedbandits.contract.errors import hint
from fedbandits.deploy.embedded.inputs import Menu, check_person, feature_rows, reward_value, seconds
from fedbandits.deploy.embedded.logged import moment
from fedbandits.deploy.embedded.persons import check_named
from fedbandits.deploy.embedded.places import Places
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import ConflictError, InputError
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.digests import digest, sha
from fedbandits.deploy.storage.entries import ChosenBy, Decided
from fedbandits.deploy.storage.journal import Journal

_OPTIONAL = ("arm", "who", "at", "propensity")


@dataclass(frozen=True, slots=True)
class Observation:
    """One line: what was shown of the arm that was taken (None: it is known by its name), and the rest."""

    line: int
    shown: Menu | None
    arm: str | None
    reward: float
    who: str | None
    at: float | None
    propensity: float | None


def read_log(content: bytes, settings: Settings) -> list[Observation]:
    """The observations in a CSV file; errors tell the line."""
    if settings.population().stages is not None:
        raise InputError(
            f"{settings.algorithm.about.name} plans, and lines of a log are decisions that stand for themselves; let "
            "the agent take such decisions again, episode by episode (decide, reward)"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the log is not UTF-8: {error}") from None
    lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = list(lines.fieldnames or ())
        features = _features(names, settings)
        found = []
        for row in lines:
            try:
                found.append(_observation(row, lines.line_num, features, settings))
            except InputError as error:
                raise InputError(f"line {lines.line_num}: {error}") from None
    except csv.Error as error:
        raise InputError(f"line {lines.reader.line_num}: not CSV: {error}") from None
    if not found:
        raise InputError("the log holds no observations")
    return found


class Importing:
    """Takes in observations at one moment, `now`, within a transaction that writes to `journal`."""

    def __init__(self, journal: Journal, settings: Settings, replica: Replica, now: float, rng: random.Random) -> None:
        self._journal = journal
        self._replica = replica
        self._now = now
        self._rng = rng
        self._places = Places(journal, settings)

    def take_in(self, content: bytes, observations: list[Observation]) -> None:
        """Learn from all of `observations`, which `content` spells; a log that was taken in before is refused."""
        self._refuse_again(content, len(observations))
        for observation in observations:
            try:
                self._take_in(observation)
            except (InputError, ValueError) as error:
                raise InputError(f"line {observation.line}: {error}") from None

    def _take_in(self, told: Observation) -> None:
        journal, replica = self._journal, self._replica
        if replica.protects_persons:
            check_named(told.who)
        shown = told.shown if told.shown is not None else self._places.menu([str(told.arm)])
        at = self._now if told.at is None else told.at
        replica.note()
        entry, tag, by = replica.counts.entry, self._rng.getrandbits(63), ChosenBy.OTHERS
        names = None if told.arm is None else [told.arm]
        journal.decide(
            entry,
            at,
            tag,
            0,
            told.arm,
            shown.shown,
            names=names,
            who=told.who,
            propensity=told.propensity,
            chosen_by=by,
        )
        decided = Decided(entry, at, tag, 0, shown.shown.tobytes(), chosen_by=by, who=told.who)
        replica.learn(decided, told.reward)
        journal.reward(replica.counts.entry, at, entry, told.reward)

    def _refuse_again(self, content: bytes, rows: int) -> None:
        db, name = self._journal.connection, sha(content)
        before = db.execute("SELECT at FROM imports WHERE content = ?", (name,)).fetchone()
        if before is not None:
            raise ConflictError(f"this log was imported before, on {moment(before[0]):%Y-%m-%d %H:%M} UTC")
        row = (name, self._now, rows)
        db.execute("INSERT INTO imports VALUES (?, ?, ?, ?)", (*row, digest(*row)))


def _features(columns: list[str], settings: Settings) -> list[str]:
    """The columns of features; the others are known ones."""
    names = _names(settings)
    for column in columns:
        if column not in (*names, *_OPTIONAL, "reward"):
            raise InputError(f"line 1: column {column!r} is not known; {hint(column, [*names, *_OPTIONAL, 'reward'])}")
    if len(set(columns)) < len(columns):
        raise InputError("line 1: a column is there twice")
    if "reward" not in columns:
        raise InputError("line 1: there is no column 'reward'")
    there = [name for name in names if name in columns]
    if not there:
        if "arm" not in columns:
            raise InputError(f"line 1: there are neither features ({names[0]}, ...) nor a column 'arm'")
        return []
    if len(there) < len(names) and settings.missing == "refused":
        lacking = next(name for name in names if name not in columns)
        raise InputError(f'line 1: there is no column {lacking!r}; add it, or open the agent with missing="zero"')
    return there


def _names(settings: Settings) -> list[str]:
    return list(settings.features or (f"x{place}" for place in range(settings.dim)))


def _observation(row: dict[str, Any], line: int, features: list[str], settings: Settings) -> Observation:
    if None in row or None in row.values():
        raise InputError("it has another number of values than the first line")
    arm = row.get("arm") or None
    shown = None
    if features:
        told = [_number(row[name], name) if name in features else 0.0 for name in _names(settings)]
        names = None if arm is None else [arm]
        shown = Menu(feature_rows([told], names, settings), names)
    elif arm is None:
        raise InputError("'arm' is empty")
    who = row.get("who") or None
    check_person(who)
    return Observation(
        line,
        shown,
        arm,
        reward_value(_number(row["reward"], "reward"), settings),
        who,
        _optional(row, "at", _time),
        _optional(row, "propensity", _probability),
    )


def _optional(row: dict[str, Any], name: str, read: Callable[[str], float]) -> float | None:
    return read(row[name]) if row.get(name) else None


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, got {text!r}") from None


def _probability(text: str) -> float:
    found = _number(text, "propensity")
    if not 0 < found <= 1:
        raise InputError(f"propensity must lie in (0, 1], got {text!r}")
    return found


def _time(text: str) -> float:
    try:
        when: datetime | float = datetime.fromisoformat(text)
    except ValueError:
        when = _number(text, "at")
    return seconds(when)
