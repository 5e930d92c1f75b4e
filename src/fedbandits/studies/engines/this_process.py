"""Simulations in this process."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from threadpoolctl import threadpool_limits

from fedbandits.findings.run import Run
from fedbandits.studies.engines.attempts import perform
from fedbandits.studies.engines.failures import Failure
from fedbandits.studies.engines.warmup import compile_kernels, kind_of, steps_by_kind
from fedbandits.studies.engines.worlds import Worlds
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Watcher


class ThisProcess:
    """One task after the other, here; those that have a world in common share what it draws."""

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """See `Engine`."""
        worlds, ahead = Worlds(tasks.values()), steps_by_kind(tasks.values())
        with threadpool_limits(limits=1):
            for index, task in tasks.items():
                compile_kernels(task, ahead[kind_of(task)])
                try:
                    done = perform(
                        task,
                        lambda steps, index=index: watcher.advance(index, steps),  # type: ignore[misc]
                        worlds.environment(task),
                    )
                except Exception as error:
                    raise Failure.of(error).blaming(task) from error
                yield index, done
