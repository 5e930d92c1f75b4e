"""What runs inside a worker process, and what it inherits."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from fedbandits.findings.run import Run
from fedbandits.studies.engines.attempts import attempt
from fedbandits.studies.engines.dealing import Dealt
from fedbandits.studies.engines.failures import Failure
from fedbandits.studies.engines.parcels import Parcel
from fedbandits.studies.engines.worlds import HandedOver

_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


class _Worker:
    """The state of a worker process."""

    def __init__(self, leash: Connection, steps: Any, workers: int) -> None:
        self._leash = leash
        self._steps = steps
        self._worlds = HandedOver(workers)
        self._busy = False
        self._let_go = False
        self._turning = threading.Lock()

    def work(self, dealt: Dealt, parcel: Parcel) -> Run | Failure:
        with self._turning:
            if self._let_go:
                return Failure("stopped", "", configuration=False)
            self._busy = True
        self._report(dealt.slot)(0)
        outcome = self._attempt(dealt, parcel)
        with self._turning:
            self._busy = False
        return outcome

    def stop_when_let_go(self) -> None:
        """End the process at once if it simulates, since nobody waits for the result.

        While it hands a result over it must not end, since that would leave half a message in the pool's pipe; then,
        and when idle, the pool ends it, or the death of its parent does.
        """
        self._leash.poll(None)
        with self._turning:
            self._let_go = True
            if self._busy:
                os._exit(1)
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    def _attempt(self, dealt: Dealt, parcel: Parcel) -> Run | Failure:
        try:
            task = parcel.task()
        except Exception as error:  # whatever somebody's modules do when they are imported
            return Failure.of(error).arriving()
        environment = self._worlds.environment(task, dealt.world, again=dealt.again)
        return attempt(task, self._report(dealt.slot), environment)

    def _report(self, slot: int) -> Callable[[int], None]:
        def report(steps: int) -> None:
            self._steps[slot] = steps

        return report


_worker: _Worker | None = None


def become_worker(leash: Connection, steps: Any, workers: int) -> None:
    """Make this process one of `workers` on `leash`, which reports in `steps` how far each task has come."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1)
    _worker = _Worker(leash, steps, workers)
    threading.Thread(target=_worker.stop_when_let_go, daemon=True).start()


def boot() -> None:
    """Let a worker process start and import."""


def work(dealt: Dealt, parcel: Parcel) -> Run | Failure:
    """Run the task in `parcel` in this worker and report its steps in the slot that it was dealt."""
    assert _worker is not None
    return _worker.work(dealt, parcel)


@contextmanager
def surroundings_of_workers() -> Iterator[None]:
    """What a worker inherits: one thread for each numerical library, Ctrl-C held back from the start, no main module.

    A spawned process runs the main module of its parent again, in order to find the classes in it; all of a script that
    has no `if __name__ == "__main__":`. Parcels bring such classes with them, so that workers need no main module.
    """
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    script = sys.modules["__main__"]
    with _interrupts_held_back():
        os.environ.update(_ONE_THREAD)
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C waits until this is over. A process that is started meanwhile inherits that, and hears none until it says
    that it ignores it.

    Ignored in the meantime it would be lost: whoever pressed it would be left with a program that goes on.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where processes inherit nothing of the kind
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
