"""What comes from outside, checked before anything is done with it: arms, rewards, times."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Range
from fedbandits.contract.room import Room
from fedbandits.deploy.embedded.named_features import row_of
from fedbandits.deploy.errors import InputError
from fedbandits.deploy.settings import Settings

Features = ArrayLike | Mapping[str, float] | Mapping[int, float]
"""Of one arm: d numbers, or numbers by the names of features, or by their places where features have no names."""
Arms = ArrayLike | Sequence[Features] | Mapping[str, Features] | Sequence[str]
"""The features of K arms, in a list or by the names of arms; names alone for agents that know arms by their place."""
FLOATS = np.dtype("<f8")
"""How features are written down."""
LARGEST = 1e7
"""Features and rewards beyond it would drown everything learned before and after in rounding errors, for good."""
LONGEST = 200
"""Characters of whom a decision is about."""


@dataclass(frozen=True, slots=True)
class Menu:
    """What a decision is among: features (K, d), a copy of its own, and the names of the arms if they have any."""

    shown: FloatArray
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class NamesOfArms:
    """What a decision is among, where arms are known by their place: names alone. `Places` makes a menu of it."""

    names: tuple[str, ...]


def menu(arms: Arms, settings: Settings) -> Menu | NamesOfArms:
    """What is shown, checked."""
    names = list(arms) if isinstance(arms, Mapping) else None
    rows: Any = list(arms.values()) if isinstance(arms, Mapping) else arms
    if names is not None:
        check_text("the name of an arm", *names)
    elif isinstance(rows, list | tuple) and rows and isinstance(rows[0], str):
        return _names_of_arms(rows)
    if isinstance(rows, list | tuple) and any(isinstance(row, Mapping) for row in rows):
        called: Sequence[str | int] = range(len(rows)) if names is None else names
        rows = [
            row_of(row, settings, arm) if isinstance(row, Mapping) else row
            for row, arm in zip(rows, called, strict=True)
        ]
    shown = feature_rows(rows, names, settings)
    if settings.arms not in (None, len(shown)):
        raise InputError(f"this agent decides among {settings.arms} arms, got {len(shown)}")
    return Menu(shown, names)


def feature_rows(rows: Any, names: Sequence[str] | None, settings: Settings) -> FloatArray:
    """`rows` as the features (K, d) of arms that may have `names`: a copy, of numbers that can be learned from."""
    try:
        shown = np.array(rows, dtype=FLOATS, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"arms must be rows of {settings.dim} numbers each ({error})") from error
    if shown.ndim != 2 or len(shown) == 0 or shown.shape[1] != settings.dim:
        raise InputError(f"arms must have shape (K, d) = (K, {settings.dim}) with K >= 1, got {shown.shape}")
    if not np.abs(shown).max() <= LARGEST:  # NaN included
        finite = np.isfinite(shown).all(axis=1)
        guilty = np.flatnonzero(~finite if not finite.all() else (np.abs(shown) > LARGEST).any(axis=1)).tolist()
        listed = guilty if names is None else [names[place] for place in guilty]
        wrong = "not finite" if not finite.all() else f"beyond {LARGEST:g}; scale them, to norms of about 1"
        raise InputError(f"the features of arms {listed[:5]} are {wrong}")
    return shown


def room_in(low: Sequence[float], high: Sequence[float], count: int, asked: Menu) -> Room:
    """Where `count` points may be proposed in place of arms that are `asked` about, checked."""
    limits = []
    for name, told in (("low", low), ("high", high)):
        try:
            limits.append(np.array(told, dtype=FLOATS))
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} must be {asked.shown.shape[1]} numbers ({error})") from error
        if limits[-1].shape != asked.shown.shape[1:] or not np.isfinite(limits[-1]).all():
            raise InputError(f"{name} must be {asked.shown.shape[1]} finite numbers, one for each feature")
    if (limits[0] > limits[1]).any():
        raise InputError("low is above high; a box goes from low to high in every feature")
    if not 1 <= count <= len(asked.shown):
        raise InputError(f"count must be between 1 and the number of arms, {len(asked.shown)} (got {count})")
    return Room(limits[0], limits[1], count)


def check_text(what: str, *given: str) -> None:
    """Whatever is `given` is text that can be written down."""
    try:
        "".join(given).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{what} must be a string of Unicode characters ({error})") from None


def check_person(who: str | None) -> None:
    """`who` a decision is about, if anybody is named, can be written down."""
    if who is None:
        return
    check_text("who", who)
    if not 1 <= len(who) <= LONGEST:
        raise InputError(f"who must have 1 to {LONGEST} characters, got {len(who)}")


def reward_value(value: float, settings: Settings) -> float:
    """`value` as a finite number within the range that is known of rewards.

    Numbers are Python's and numpy's. Text that looks like one, and truth values, are refused: they rather are mistakes.
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InputError(f"a reward must be a number, got {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"a reward must be finite, got {number}")
    if abs(number) > LARGEST:
        raise InputError(f"a reward must not exceed {LARGEST:g} in size, got {number:g}; scale rewards to about 1")
    within = settings.problem.get(Range)
    if within is not None and not within.low <= number <= within.high:
        raise InputError(f"rewards lie between {within.low:g} and {within.high:g}, got {number:g}")
    return number


def seconds(when: datetime | float) -> float:
    """A time as seconds since 1970."""
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InputError("a datetime needs a time zone")
        return when.timestamp()
    if not math.isfinite(when):
        raise InputError(f"a time must be finite, got {when}")
    return float(when)


def _names_of_arms(told: Sequence[Any]) -> NamesOfArms:
    names = tuple(told)
    check_text("the name of an arm", *names)
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"the arm {twice[0]!r} is named twice")
    return NamesOfArms(names)
