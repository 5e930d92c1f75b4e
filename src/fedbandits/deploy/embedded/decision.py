"""A decision: what to do, and the id by which its reward is told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedbandits.deploy.errors import UnknownDecisionError

_ID = re.compile("([0-9]{1,18})-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. Log the `id`: it is what the reward will be told with."""

    id: str
    arm: str | int
    """The name of the chosen arm; its index if the arms had no names."""
    index: int
    """Its place among the arms that were shown, from 0."""
    score: float | None = None
    """What the algorithm gave the arm, where it compares scores."""
    propensity: float = 1.0
    """With which probability the arm was taken; see `exploring`."""


def named(entry: int, tag: int) -> str:
    """The id of the decision of `entry`; its random tag tells it from decisions of other agents and other lives."""
    return f"{entry}-{tag:016x}"


def parsed(name: str) -> tuple[int, int]:
    """Entry and tag of the decision called `name`."""
    found = _ID.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise UnknownDecisionError(f"{name!r} is not the id of a decision")
    return int(found[1]), int(found[2], 16)
