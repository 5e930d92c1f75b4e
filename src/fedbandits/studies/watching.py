"""Whoever wants to see how simulations get on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fedbandits.studies.tasks import Task


class Watcher(Protocol):
    """Whoever wants to see how tasks get on. Called from the thread that started them."""

    def begin(self, tasks: Sequence[Task]) -> None:
        """These are all the tasks; the other calls speak of them by index."""

    def advance(self, index: int, steps_done: int) -> None:
        """A running task has come this far; told a few times a second at most, and not by every engine."""

    def finish(self, index: int, resumed: bool) -> None:
        """A task's result is there; `resumed` if it was found on disk instead of computed."""


class Unwatched:
    """A watcher that looks away."""

    def begin(self, tasks: Sequence[Task]) -> None:
        """Nothing."""

    def advance(self, index: int, steps_done: int) -> None:
        """Nothing."""

    def finish(self, index: int, resumed: bool) -> None:
        """Nothing."""
