"""What protects people, in terms that agents, reports and services share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedbandits.contract.arrays import FloatArray, IntArray

Unit = Literal["observation", "agent", "person", "episode"]
"""Whose data may change: one observation, everything an agent ever contributes, everything a person does there, or one
whole episode, for agents who plan."""
Adjacency = Literal["add-remove", "replace"]
"""How neighbouring histories differ in one unit: it is there or counts for nothing; or it is another one."""
Definition = Literal["transcript", "fixed histories"]
"""What is protected against those who see everything that leaves an agent, its later choices included: the whole
transcript; or the releases alone, as if later observations did not depend on earlier ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Protection:
    """A budget of (`epsilon`, `delta`) for each agent, and how much of it is used.

    `spent` (n,) is epsilon at `delta` by the `definition`; `strictly` (n,) the same for the whole transcript, infinite
    where choices rest on data that were not released, or the moments of releases do.
    """

    unit: Unit
    adjacency: Adjacency
    definition: Definition
    epsilon: float
    delta: float
    mechanism: str
    releases: IntArray
    """(n,) made so far."""
    allowed: int
    """How many each agent may make; nothing is released after that."""
    spent: FloatArray
    strictly: FloatArray
    sensitivity: float
    """What noise of standard deviation 1 is held against: how far one unit can move what is released."""
