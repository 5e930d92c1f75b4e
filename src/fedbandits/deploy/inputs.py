"""What comes from outside, checked before anything is done with it: arms, rewards, times."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from datetime import datetime

import numpy as np
from numpy.typing import ArrayLike

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Range
from fedbandits.deploy.errors import InputError
from fedbandits.deploy.settings import Settings

Arms = ArrayLike | Mapping[str, ArrayLike]
"""K rows of d features, or the features of each arm by its name."""
FLOATS = np.dtype("<f8")
"""How features are written down."""
LARGEST = 1e7
"""Features and rewards beyond it would drown everything learned before and after in rounding errors, for good."""


def menu(arms: Arms, settings: Settings) -> tuple[list[str] | None, FloatArray]:
    """The names of the shown arms, if they have any, and their features (K, d): a copy of its own."""
    names = list(arms) if isinstance(arms, Mapping) else None
    rows = list(arms.values()) if isinstance(arms, Mapping) else arms
    if names is not None:
        check_text("the name of an arm", *names)
    try:
        shown = np.array(rows, dtype=FLOATS, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"arms must be rows of {settings.dim} numbers each ({error})") from error
    if shown.ndim != 2 or len(shown) == 0 or shown.shape[1] != settings.dim:
        raise InputError(f"arms must have shape (K, d) = (K, {settings.dim}) with K >= 1, got {shown.shape}")
    if settings.arms not in (None, len(shown)):
        raise InputError(f"this agent decides among {settings.arms} arms, got {len(shown)}")
    if not np.abs(shown).max() <= LARGEST:  # NaN included
        finite = np.isfinite(shown).all(axis=1)
        guilty = np.flatnonzero(~finite if not finite.all() else (np.abs(shown) > LARGEST).any(axis=1)).tolist()
        listed = guilty if names is None else [names[place] for place in guilty]
        wrong = "not finite" if not finite.all() else f"beyond {LARGEST:g}; scale them, to norms of about 1"
        raise InputError(f"the features of arms {listed[:5]} are {wrong}")
    return names, shown


def check_text(what: str, *given: str) -> None:
    """Whatever is `given` is text that can be written down."""
    try:
        "".join(given).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{what} must be a string of Unicode characters ({error})") from None


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
