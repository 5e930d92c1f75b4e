"""Which worker runs which task: one that has a world goes on in it, where what was drawn need not be drawn again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from fedbandits.studies.engines.worlds import world_of
from fedbandits.studies.tasks import Task


class Dealt(NamedTuple):
    """A task for a worker."""

    slot: int
    """Its place among all tasks."""
    key: int
    """What it is known by."""
    world: int
    """A number that tasks in one world have in common."""
    again: bool
    """Whether others of that world are left."""


class Deal:
    """Hands out tasks. Who has finished all that there are of a world begins with the next one; where nobody has begun
    with is none left, whoever is idle helps with the world of which most is left.
    """

    def __init__(self, tasks: Mapping[int, Task]) -> None:
        groups: dict[tuple[int, int, int], deque[tuple[int, int]]] = {}
        for slot, (key, task) in enumerate(tasks.items()):
            groups.setdefault(world_of(task), deque()).append((slot, key))
        self._groups = list(groups.values())
        self._fresh = iter(range(len(self._groups)))
        self._own: dict[int, int] = {}
        self.left = len(tasks)

    def next(self, worker: int) -> Dealt | None:
        """What `worker` is to run next; None if nothing is left."""
        if self.left == 0:
            return None
        world = self._own.get(worker)
        if world is None or not self._groups[world]:
            world = next(self._fresh, None)
            if world is None:
                world = max(range(len(self._groups)), key=lambda one: len(self._groups[one]))
            self._own[worker] = world
        self.left -= 1
        group = self._groups[world]
        slot, key = group.popleft()
        return Dealt(slot, key, world, bool(group))
