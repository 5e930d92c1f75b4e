"""Simulations in worker processes on this machine."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool

from threadpoolctl import threadpool_limits

from fedbandits.findings.run import Run
from fedbandits.studies.engines.failures import Failure, TaskError
from fedbandits.studies.engines.parcels import Parcel, require_portable
from fedbandits.studies.engines.warmup import compile_kernels, kind_of, steps_by_kind
from fedbandits.studies.engines.workers import become_worker, boot, surroundings_of_workers, work
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Watcher

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0
_NOT_STARTED = -1
_AHEAD = 4
"""Tasks that are handed out for each worker: it should find the next one when it is done with one."""


class Processes:
    """Local worker processes, each with one thread.

    Workers ignore Ctrl-C, which the terminal sends to all of them; they stop when this side lets go of the pipe they
    hold, be it on purpose or because this process has died.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """See `Engine`."""
        if not tasks:
            return
        require_portable(tasks.values())
        context = multiprocessing.get_context("spawn")
        workers = min(self._jobs, len(tasks))
        steps = context.RawArray("q", [_NOT_STARTED] * len(tasks))
        leash, grip = context.Pipe(duplex=False)
        executor = concurrent.futures.ProcessPoolExecutor(
            workers, mp_context=context, initializer=become_worker, initargs=(leash, steps)
        )
        try:
            with surroundings_of_workers():
                for _ in range(workers):
                    executor.submit(boot)
            # workers import while this process compiles, and then find the kernels in the cache
            ahead = steps_by_kind(tasks.values())
            with threadpool_limits(limits=1):
                for task in tasks.values():
                    compile_kernels(task, ahead[kind_of(task)] // workers)
            yield from self._collect(executor, _AHEAD * workers, tasks, steps, watcher)
        except BrokenProcessPool:
            running = [task for task, done in zip(tasks.values(), steps, strict=True) if 0 <= done < task.horizon]
            raise TaskError(
                f"a worker process died while running {' or '.join(map(str, running)) or 'no task yet'}; it may have "
                "run out of memory: try fewer jobs"
            ) from None
        finally:
            grip.close()
            _end(executor)
            leash.close()

    @staticmethod
    def _collect(
        executor: concurrent.futures.Executor,
        room: int,
        tasks: Mapping[int, Task],
        steps: Sequence[int],
        watcher: Watcher,
    ) -> Iterator[tuple[int, Run]]:
        """Results as they come; no more than `room` tasks are handed out at a time, since whoever waits for one of many
        looks at all of them each time.
        """
        queue, told = iter(enumerate(tasks)), dict.fromkeys(tasks, _NOT_STARTED)
        pending: dict[concurrent.futures.Future[Run | Failure], tuple[int, int]] = {}
        while True:
            # among many workers the first may have booted before the last was asked for: that one starts only now
            with surroundings_of_workers():
                for slot, index in itertools.islice(queue, room - len(pending)):
                    try:
                        pending[executor.submit(work, slot, Parcel(tasks[index]))] = slot, index
                    except BrokenProcessPool:
                        if not pending:
                            raise
                        break  # those that are pending know it, too, or are finished
            if not pending:
                return
            done, _ = concurrent.futures.wait(
                pending, timeout=_POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for slot, index in pending.values():
                now = steps[slot]
                if now != told[index]:
                    watcher.advance(index, now)
                    told[index] = now
            # what is finished is handed over before anything is said about what failed
            errors: list[Exception] = []
            for future in done:
                _, index = pending.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool as error:
                    errors.append(error)
                    continue
                if isinstance(outcome, Failure):
                    errors.insert(0, outcome.blaming(tasks[index]))
                else:
                    yield index, outcome
            if errors:
                raise errors[0]


def _end(executor: concurrent.futures.ProcessPoolExecutor) -> None:
    """Shut `executor` down and leave no process behind."""
    # terminate_workers of Python 3.14 looks them up in the same place
    workers = list((executor._processes or {}).values())

    def terminate() -> None:
        for worker in workers:
            worker.terminate()

    # those that run or idle end by themselves at once; the others are still importing, and deaf until they are done
    impatience = threading.Timer(_PATIENCE_SECONDS, terminate)
    impatience.start()
    executor.shutdown(wait=True, cancel_futures=True)
    impatience.cancel()
