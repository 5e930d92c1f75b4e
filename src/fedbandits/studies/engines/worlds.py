"""Worlds that several tasks have in common: what is drawn for one algorithm is there for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.world import Environment, World
from fedbandits.simulation.memory import machine_memory
from fedbandits.studies.tasks import Task

_MOST = 2**28
"""Bytes that are kept of what a world has drawn; a sixteenth of the machine's memory at most."""


class Recalled:
    """`environment`, whose world is the one that was made for the same horizon and seed before, if that was the last.

    Worlds are pure functions of their seeds, so that nothing comes out differently; one that moves is made anew.
    """

    def __init__(self, environment: Environment, sharers: int = 1) -> None:
        self.environment = environment
        self._sharers = sharers
        self._made: tuple[object, World] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.environment, name)

    @property
    def about(self) -> AboutEnvironment:
        """See `Environment`."""
        return self.environment.about

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """See `Environment`."""
        which = (horizon, seed.entropy, seed.spawn_key)
        if self._made is not None and self._made[0] == which:
            return self._made[1]
        self._made = None  # before another one takes memory
        world = self.environment.world(horizon, seed)
        if isinstance(world, World) and not world.keeps:
            world.remember(room_for_worlds() // self._sharers)
            self._made = which, world
        return world


class Worlds:
    """The environments of tasks that are run one after the other, for those whose world another one of them has too."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._left = Counter(map(world_of, tasks))
        self._last: Recalled | None = None

    def environment(self, task: Task) -> Environment:
        """What `task` is to be run in."""
        which = world_of(task)
        again = self._last is not None and self._last.environment is task.environment
        self._left[which] -= 1
        if not again:
            self._last = Recalled(task.environment) if self._left[which] > 0 else None
        return task.environment if self._last is None else self._last


class HandedOver:
    """The environments of tasks that reach a worker one by one, each with a number that those of one world have in
    common: of `sharers` workers on one machine.
    """

    def __init__(self, sharers: int) -> None:
        self._sharers = sharers
        self._last: tuple[int, Recalled] | None = None

    def environment(self, task: Task, world: int, *, again: bool) -> Environment:
        """What `task` is to be run in; `again` if another one of its world is to follow."""
        if self._last is None or self._last[0] != world:
            self._last = (world, Recalled(task.environment, self._sharers)) if again else None
        return task.environment if self._last is None else self._last[1]


def world_of(task: Task) -> tuple[int, int, int]:
    """The same for tasks whose world is the same."""
    return id(task.environment), task.horizon, task.seed


def room_for_worlds() -> int:
    """How many bytes of what was drawn are kept for the next task."""
    memory = machine_memory()
    return _MOST if memory is None else min(_MOST, memory // 16)
