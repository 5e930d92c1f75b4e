"""Tasks on their way to a worker process.

Classes that a worker can import travel by name; those of a notebook or of the calling script, and those made inside of
functions, travel whole, with what they use. A worker therefore never runs the calling script again.
"""

from __future__ import annotations

from collections.abc import Iterable

import cloudpickle

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import parameters_of
from fedbandits.studies.tasks import Task, parts_of


class Parcel:
    """A task that is packed when it is sent, and opened by `task` where it has arrived."""

    def __init__(self, task: Task) -> None:
        self._task: Task | None = task
        self._packed = b""

    def task(self) -> Task:
        """The task; raises what comes of packing or opening it."""
        if self._task is None:
            self._task = cloudpickle.loads(self._packed)
        return self._task

    def __getstate__(self) -> bytes:
        return self._packed or cloudpickle.dumps(self._task)

    def __setstate__(self, packed: bytes) -> None:
        self._task, self._packed = None, packed


def require_portable(tasks: Iterable[Task]) -> None:
    """Refuse tasks with a part that cannot be sent to another process; the error names it, the cause and the fix."""
    seen: dict[int, object] = {}
    for task in tasks:
        for part in parts_of(task):
            if id(part) not in seen:
                seen[id(part)] = part
                if (trouble := _trouble(part)) is not None:
                    raise ConfigError(f"{task.label}: {_explained(part, trouble)}") from trouble


def _explained(part: object, trouble: Exception) -> str:
    kind = (part if isinstance(part, type) else type(part)).__name__
    held = {} if isinstance(part, type) else parameters_of(part)
    for name, value in held.items():
        if (own := _trouble(value)) is not None:
            return (
                f"{kind}.{name} cannot be sent to another process ({own}); make it where it is used, in the methods of "
                f"{kind}, or run with jobs=1"
            )
    return (
        f"{kind} cannot be sent to another process ({trouble}): its methods use something that is bound to this one; "
        f"make that inside of them, put {kind} into a module of its own and import it, or run with jobs=1"
    )


def _trouble(thing: object) -> Exception | None:
    try:
        cloudpickle.dumps(thing)
    except Exception as error:  # whatever somebody's class raises when it is pickled
        return error
    return None
