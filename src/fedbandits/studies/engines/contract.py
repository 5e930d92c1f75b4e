"""What an engine is: it takes tasks, and hands their results over one by one, in the order in which they finish.

Every task is computed with one thread, so that results do not depend on how many run side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

from fedbandits.findings.run import Run
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Watcher


class Engine(Protocol):
    """Runs tasks. Closing the generator early stops what is still running and leaves no process behind."""

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """Yield (index, result) as each task finishes; an error names the task that failed."""
