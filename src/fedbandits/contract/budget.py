"""One agent's budget of privacy in plain values and in words: the same in status, services, metrics and reports."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.protection import Adjacency, Definition, Protection, Unit

INFINITE = "infinite"
"""What stands for an infinite epsilon where only JSON's numbers can be written; null would say that there is none."""
_WORDS, _NUMBERS, _USED = "budget.words", "budget.numbers", "budget.used"
_UNITS = {
    "observation": "one observation",
    "agent": "all that one agent contributes",
    "person": "one person",
    "episode": "one episode",
}
_DEFINITIONS = {
    "transcript": "in all that leaves the agent, its choices included",
    "fixed histories": "in what it uploads, as if later observations did not depend on earlier ones",
}


@dataclass(frozen=True, slots=True)
class Budget:
    """(`epsilon`, `delta`) for one `unit` of data, what is used of it, and what that means; see `Protection`."""

    unit: Unit
    adjacency: Adjacency
    definition: Definition
    mechanism: str
    epsilon: float
    delta: float
    spent: float
    """Epsilon by the `definition`, at `delta`."""
    strictly: float
    """The same for the whole transcript: infinite where choices rest on data that were not released, or the moments of
    releases on data at all."""
    releases: int
    """Made so far."""
    allowed: int
    """How many may be made; nothing is released after that."""
    copies: int = 0
    """How many backups lie between the agent that was made and this one. What the files before it may have released
    since is part of `spent`: all that their budget allowed."""

    @classmethod
    def of(cls, protection: Protection, agent: int = 0) -> Self:
        """That of one agent of a population."""
        return cls(
            protection.unit,
            protection.adjacency,
            protection.definition,
            protection.mechanism,
            protection.epsilon,
            protection.delta,
            float(protection.spent[agent]),
            float(protection.strictly[agent]),
            int(protection.releases[agent]),
            protection.allowed,
        )

    def plain(self) -> dict[str, Any]:
        """In terms JSON has."""
        return {name: finite(value) for name, value in dataclasses.asdict(self).items()}

    def promise(self) -> dict[str, Any]:
        """What was set, in terms JSON has, without what has become of it."""
        used = ("spent", "strictly", "releases", "copies")
        return {name: value for name, value in self.plain().items() if name not in used}

    def used(self) -> str:
        """How much is spent, and on how many releases."""
        return (
            f"epsilon {_number(self.spent)} of {self.epsilon:g} spent at delta {self.delta:g}, "
            f"{self.releases} of {self.allowed} releases made"
        )

    def meaning(self) -> str:
        """What is protected, and what is not."""
        said = f"protects {_UNITS[self.unit]} ({self.adjacency}) {_DEFINITIONS[self.definition]}"
        if math.isinf(self.spent):
            return f"{said}; nothing is, since when agents call depends on data"
        if self.definition != "transcript":
            said += (
                "; by the strict definition, which counts its choices, too, epsilon is infinite from the first release"
            )
        if self.copies:
            said += "; restored from a backup: all that the file before it was allowed counts as released"
        return said

    def __str__(self) -> str:
        return f"{self.used()}; {self.meaning()}"


def finite(value: Any) -> Any:
    """`value`, or `INFINITE` in place of an infinite number."""
    return INFINITE if isinstance(value, float) and math.isinf(value) else value


def portrayed(protection: Protection | None) -> State:
    """A budget among the arrays that a run leaves to be looked at, as `contract.portrait` says; empty without one."""
    if protection is None:
        return {}
    used = [protection.spent, protection.strictly, protection.releases]
    return {
        _WORDS: np.array([protection.unit, protection.adjacency, protection.definition, protection.mechanism]),
        _NUMBERS: np.array([protection.epsilon, protection.delta, protection.allowed]),
        _USED: np.stack(used, axis=1, dtype=np.float64),
    }


def budget_in(portrait: Mapping[str, Array]) -> Budget | None:
    """That of the agent that has spent most, among the arrays that a run has left; None if there is none."""
    if not {_WORDS, _NUMBERS, _USED} <= portrait.keys():
        return None
    unit, adjacency, definition, mechanism = portrait[_WORDS].tolist()
    epsilon, delta, allowed = portrait[_NUMBERS].tolist()
    spent, strictly, releases = max(portrait[_USED].tolist())
    meaning = (unit, adjacency, definition, mechanism)
    return Budget(*meaning, epsilon, delta, spent, strictly, int(releases), int(allowed))


def _number(epsilon: float) -> str:
    return INFINITE if math.isinf(epsilon) else f"{epsilon:.4g}"
