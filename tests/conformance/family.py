"""What the suite has to be told of a family: how its algorithms are made small, talkative, silent and confident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Parameters = Mapping[str, Any]
Trial = tuple[str, Callable[[], None]]
"""A name, and what is tried under it."""


def _no_choices(name: str) -> Iterable[Trial]:
    return ()


@dataclass(frozen=True)
class Family:
    """One family file holds one of these, under the name `FAMILY`; settings are by name of the algorithm."""

    small: Mapping[str, Parameters]
    """By name of an environment that the family is at home in: parameters that make it small."""
    talkative: Mapping[str, Parameters] = field(default_factory=dict)
    """Parameters under which an algorithm that talks does so several times in a short run; not needed where its
    defaults do."""
    silent: Mapping[str, Parameters] = field(default_factory=dict)
    """Parameters that switch communication off, where there are any."""
    confident: tuple[Parameters, ...] = ({},)
    """One example of every way to be confident, of all algorithms of the family."""
    constant: frozenset[str] = frozenset()
    """Those whose confidence is a number and follows from no theory: what is named is not for them."""
    choices: Callable[[str], Iterable[Trial]] = _no_choices
    """Trials that recompute what an algorithm acts on from the history of a run, by means of its own."""
    harsh: Parameters = field(default_factory=dict)
    """Parameters under which inverses are at stake, and iterative estimates cut short; those an algorithm has are
    used."""
    affordable: Mapping[str, int] = field(default_factory=dict)
    """How many steps the longest run has, where each step goes over all that was ever observed."""
    excused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Promises that an algorithm does not make, each with the reason."""
    path_dependent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How names of arrays end that depend on the order of events."""
