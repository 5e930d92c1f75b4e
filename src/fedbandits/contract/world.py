"""What the simulator needs of an environment: parameters that can make a world from a seed.

A world is a pure function of its seed and of what is chosen in it: `turn(t)` shows the same arms to every
algorithm, and the noise `pay(t, picks)` adds belongs to the decision (t, agent), whichever algorithm takes
it. Two algorithms under one seed are therefore compared on common random numbers. Arms are shown in an
order that tells nothing about their value, since exact ties go to the lowest index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.problem import Problem


@dataclass(frozen=True, slots=True)
class AboutEnvironment:
    """A catalogue entry."""

    name: str
    family: str
    summary: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One step: `who` (w,) are awake and see `arms` (w, K, d); `reachable` (n,) can be talked to (None: everybody)."""

    who: IntArray
    arms: FloatArray
    reachable: BoolArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the choices of one step brought, each (w,): the rewards that were observed, and two things nobody sees,
    the pseudo-regrets and the expected reward of a uniformly random choice among the same arms.
    """

    rewards: FloatArray
    regrets: FloatArray
    chance: FloatArray


class World(Protocol):
    """A problem instance with all its randomness fixed."""

    problem: Problem

    def turn(self, step: int) -> Turn:
        """Who is awake in `step` (0-based), and what they may choose from."""

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """The outcome of `picks` (w,) in `step`."""


@runtime_checkable
class Parametric(Protocol):
    """A world with a true parameter: `theta` (n, d), or (1, d) for all agents."""

    theta: FloatArray


@runtime_checkable
class Armed(Protocol):
    """A world with the same K arms at every turn."""

    @property
    def means(self) -> FloatArray:
        """(K,) mean reward of each arm."""


@runtime_checkable
class Drifting(Protocol):
    """A world in which agents change cluster; `problem.clusters` are those of the beginning."""

    def clusters_in(self, step: int) -> tuple[int, ...]:
        """The cluster of each agent in `step`."""


def parts_of(seed: np.random.SeedSequence, count: int) -> list[np.random.SeedSequence]:
    """`count` independent seeds; unlike `seed.spawn`, the same ones at every call."""
    return [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, part)) for part in range(count)]


class Environment(Protocol):
    """A frozen dataclass of parameters."""

    about: ClassVar[AboutEnvironment]

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
