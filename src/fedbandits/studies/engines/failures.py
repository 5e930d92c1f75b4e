"""What went wrong with a simulation, wherever it ran."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace

from fedbandits.contract.catalogue import ConfigError
from fedbandits.studies.tasks import Task


class TaskError(RuntimeError):
    """A simulation failed; the message names the task, the cause holds the traceback."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception in a form that can travel from any worker."""

    message: str
    trace: str
    configuration: bool

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What is to be said of `error`."""
        configuration = isinstance(error, ConfigError)
        message = str(error) if configuration else f"{type(error).__name__}: {error}"
        return cls(message, "".join(traceback.format_exception(error)), configuration)

    def arriving(self) -> Failure:
        """The same of a task that a worker could not open."""
        why = (
            f"a worker process cannot import what the task needs ({self.message}); its module must be installed, "
            "beside the calling script or on PYTHONPATH; or run with jobs=1"
        )
        return replace(self, message=why, configuration=True)

    def blaming(self, task: Task) -> Exception:
        """The exception to raise, which names the task."""
        if self.configuration:
            return ConfigError(f"{task}: {self.message}")
        error = TaskError(f"{task}: {self.message}")
        error.__cause__ = RuntimeError(f"in the worker:\n{self.trace}")
        return error
