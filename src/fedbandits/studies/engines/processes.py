"""Simulations in worker processes on this machine."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool

from threadpoolctl import threadpool_limits

from fedbandits.findings.run import Run
from fedbandits.studies.engines.dealing import Deal, Dealt
from fedbandits.studies.engines.failures import Failure, TaskError
from fedbandits.studies.engines.parcels import Parcel, require_portable
from fedbandits.studies.engines.warmup import compile_kernels, kind_of, steps_by_kind
from fedbandits.studies.engines.workers import become_worker, boot, surroundings_of_workers, work
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Watcher

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0
_NOT_STARTED = -1
_AHEAD = 2
"""Tasks that are handed out to each worker: it should find the next one when it is done with one."""
_SOON = 4
"""With so many left for each worker there is one at a time, so that nobody waits behind a long one."""


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
        # one pool for each, so that what is run in one world can be given to the worker that has it
        executors = [
            concurrent.futures.ProcessPoolExecutor(
                1, mp_context=context, initializer=become_worker, initargs=(leash, steps, workers)
            )
            for _ in range(workers)
        ]
        try:
            with surroundings_of_workers():
                for executor in executors:
                    executor.submit(boot)
            # workers import while this process compiles, and then find the kernels in the cache
            ahead = steps_by_kind(tasks.values())
            with threadpool_limits(limits=1):
                for task in tasks.values():
                    compile_kernels(task, ahead[kind_of(task)] // workers)
            yield from self._collect(executors, tasks, steps, watcher)
        except BrokenProcessPool:
            running = [task for task, done in zip(tasks.values(), steps, strict=True) if 0 <= done < task.horizon]
            raise TaskError(
                f"a worker process died while running {' or '.join(map(str, running)) or 'no task yet'}; it may have "
                "run out of memory: try fewer jobs"
            ) from None
        finally:
            grip.close()
            _end(executors)
            leash.close()

    @staticmethod
    def _collect(
        executors: Sequence[concurrent.futures.Executor],
        tasks: Mapping[int, Task],
        steps: Sequence[int],
        watcher: Watcher,
    ) -> Iterator[tuple[int, Run]]:
        """Results as they come; few tasks are handed out at a time, since whoever waits for one of many looks at all of
        them each time.
        """
        deal, told = Deal(tasks), dict.fromkeys(tasks, _NOT_STARTED)
        pending: dict[concurrent.futures.Future[Run | Failure], tuple[int, Dealt]] = {}
        while True:
            room = _AHEAD if deal.left > _SOON * len(executors) else 1
            busy = Counter(worker for worker, _ in pending.values())
            # among many workers the first may have booted before the last was asked for: that one starts only now
            with surroundings_of_workers():
                for worker, executor in enumerate(executors):
                    while busy[worker] < room and (dealt := deal.next(worker)) is not None:
                        try:
                            pending[executor.submit(work, dealt, Parcel(tasks[dealt.key]))] = worker, dealt
                        except BrokenProcessPool:
                            if not busy[worker]:
                                raise
                            break  # those that are pending know it, too, or are finished
                        busy[worker] += 1
            if not pending:
                return
            done, _ = concurrent.futures.wait(
                pending, timeout=_POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for _, dealt in pending.values():
                now = steps[dealt.slot]
                if now != told[dealt.key]:
                    watcher.advance(dealt.key, now)
                    told[dealt.key] = now
            # what is finished is handed over before anything is said about what failed
            errors: list[Exception] = []
            for future in done:
                _, dealt = pending.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool as error:
                    errors.append(error)
                    continue
                if isinstance(outcome, Failure):
                    errors.insert(0, outcome.blaming(tasks[dealt.key]))
                else:
                    yield dealt.key, outcome
            if errors:
                raise errors[0]


def _end(executors: Sequence[concurrent.futures.ProcessPoolExecutor]) -> None:
    """Shut `executors` down and leave no process behind."""
    # terminate_workers of Python 3.14 looks them up in the same place
    workers = [worker for executor in executors for worker in list((executor._processes or {}).values())]

    def terminate() -> None:
        for worker in workers:
            worker.terminate()

    # those that run or idle end by themselves at once; the others are still importing, and deaf until they are done
    impatience = threading.Timer(_PATIENCE_SECONDS, terminate)
    impatience.start()
    for executor in executors:
        executor.shutdown(wait=True, cancel_futures=True)
    impatience.cancel()
