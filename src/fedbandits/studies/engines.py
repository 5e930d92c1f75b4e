"""Where simulations run: in this process, in local processes, or on a Ray cluster.

An engine takes tasks and hands their results over one by one, in the order in which they finish. Every task is
computed with one thread, so that results do not depend on how many run side by side.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, Protocol

import networkx as nx
import pandas as pd
from threadpoolctl import threadpool_limits

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import FloatArray, State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.portrait import bounded
from fedbandits.contract.world import Environment
from fedbandits.graphs.network import Given, Network
from fedbandits.simulation.loop import Progress, simulate

ENGINES = ("local", "ray")

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
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0
_NOT_STARTED = -1


@dataclass(frozen=True, slots=True)
class Task:
    """One simulation: an algorithm under a label, at one point of a sweep, with one seed."""

    label: str
    algorithm: Algorithm
    environment: Environment
    horizon: int
    seed: int
    point: Mapping[str, Any] = field(default_factory=dict)
    """Sweep coordinates: column name to value."""
    points: int | None = 200
    """How many evenly spaced steps the result keeps; None keeps every step."""
    coverage: bool = False
    """Whether to check confidence ellipsoids against the truth."""
    network: Network | None = None
    """The graph on which agents without a server talk."""
    theory: bool = False
    """Whether to evaluate what theory says of the regret."""

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value}" for name, value in self.point.items())
        return f"{self.label}{f' at {where}' if where else ''}, seed {self.seed}"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What is kept of one simulation."""

    frame: pd.DataFrame
    """`Trace.frame`, thinned as the task says."""
    regret_by_client: FloatArray
    """(n,) pseudo-regret of each agent at the end."""
    seconds: float
    portrait: State = field(default_factory=dict)
    """`Trace.portrait`, without what is too large to be kept; see `portrait`."""


class TaskError(RuntimeError):
    """A simulation failed; the message names the task, the cause holds the traceback."""


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


class Engine(Protocol):
    """Runs tasks. Closing the generator early stops what is still running and leaves no process behind."""

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """Yield (index, result) as each task finishes; an error names the task that failed."""


def engine_named(name: str, jobs: int) -> Engine:
    """The engine `name` with `jobs` simulations side by side.

    A Ray cluster that is already there decides for itself how many that are.
    """
    if jobs < 1:
        raise ConfigError(f"jobs: must be at least 1 (got {jobs})")
    if name == "ray":
        return RayCluster(jobs)
    if name != "local":
        raise ConfigError(f"engine: unknown engine {name!r}; known are: {', '.join(ENGINES)}")
    return InProcess() if jobs == 1 else Processes(jobs)


class InProcess:
    """One task after the other, here."""

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """See `Engine`."""
        with threadpool_limits(limits=1):
            for index, task in tasks.items():
                try:
                    done = _simulate(task, lambda steps, index=index: watcher.advance(index, steps))  # type: ignore[misc]
                except Exception as error:
                    raise Failure.of(error).blaming(task) from error
                yield index, done


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
        context = multiprocessing.get_context("spawn")
        workers = min(self._jobs, len(tasks))
        steps = context.RawArray("q", [_NOT_STARTED] * len(tasks))
        leash, grip = context.Pipe(duplex=False)
        executor = concurrent.futures.ProcessPoolExecutor(
            workers, mp_context=context, initializer=_become_worker, initargs=(leash, steps)
        )
        try:
            with _surroundings_of_workers():
                for _ in range(workers):
                    executor.submit(_boot)
            # workers import while this process compiles, and then find the kernels in the cache
            with threadpool_limits(limits=1):
                for task in tasks.values():
                    _compile_kernels(task)
            slots = {executor.submit(_work, slot, tasks[index]): (slot, index) for slot, index in enumerate(tasks)}
            yield from self._collect(slots, steps, tasks, watcher)
        except BrokenProcessPool:
            running = [task for task, done in zip(tasks.values(), steps, strict=True) if 0 <= done < task.horizon]
            raise TaskError(
                f"a worker process died while running {' or '.join(map(str, running)) or 'no task yet'}; it may have "
                "run out of memory (try fewer jobs), or the calling script lacks `if __name__ == '__main__':`"
            ) from None
        finally:
            grip.close()
            _end(executor)
            leash.close()

    @staticmethod
    def _collect(
        slots: dict[concurrent.futures.Future[Run | Failure], tuple[int, int]],
        steps: Sequence[int],
        tasks: Mapping[int, Task],
        watcher: Watcher,
    ) -> Iterator[tuple[int, Run]]:
        told = dict.fromkeys(tasks, _NOT_STARTED)
        pending = set(slots)
        while pending:
            done, pending = concurrent.futures.wait(
                pending, timeout=_POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for slot, index in slots.values():
                now = steps[slot]
                if now != told[index]:
                    watcher.advance(index, now)
                    told[index] = now
            # what is finished is handed over before anything is said about what failed
            errors: list[Exception] = []
            for future in done:
                _, index = slots[future]
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


class RayCluster:
    """Tasks as Ray remote functions of one CPU each.

    Connects to the cluster named by RAY_ADDRESS, or starts one on this machine with as many CPUs as jobs. Sends no
    usage statistics.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._ray = _import_ray()

    def run(self, tasks: Mapping[int, Task], watcher: Watcher) -> Generator[tuple[int, Run]]:
        """See `Engine`."""
        ray = self._ray
        with self._cluster():
            remote = ray.remote(num_cpus=1, max_retries=0)(_attempt_alone)
            refs = {remote.remote(task): index for index, task in tasks.items()}
            pending = list(refs)
            try:
                while pending:
                    [ref], pending = ray.wait(pending, num_returns=1)
                    task = tasks[refs[ref]]
                    try:
                        outcome = ray.get(ref)
                    except ray.exceptions.RayError as error:
                        raise Failure.of(error).blaming(task) from error
                    if isinstance(outcome, Failure):
                        raise outcome.blaming(task)
                    watcher.advance(refs[ref], task.horizon)
                    yield refs[ref], outcome
            finally:
                for ref in pending:
                    ray.cancel(ref, force=True)

    @contextmanager
    def _cluster(self) -> Iterator[None]:
        ray = self._ray
        if ray.is_initialized():
            yield
            return
        address = os.environ.get("RAY_ADDRESS")
        local = {} if address else {"num_cpus": self._jobs, "include_dashboard": False}
        ray.init(address=address or "local", log_to_driver=False, logging_level="warning", **local)
        try:
            yield
        finally:
            ray.shutdown()


def _import_ray() -> ModuleType:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ConfigError(
            "engine: 'ray' is not installed; run `pip install fedbandits[ray]`, or use engine 'local'"
        ) from None


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

    def blaming(self, task: Task) -> Exception:
        """The exception to raise, which names the task."""
        if self.configuration:
            return ConfigError(f"{task}: {self.message}")
        error = TaskError(f"{task}: {self.message}")
        error.__cause__ = RuntimeError(f"in the worker:\n{self.trace}")
        return error


def _simulate(task: Task, progress: Progress | None) -> Run:
    _compile_kernels(task)
    trace = simulate(
        task.algorithm,
        task.environment,
        task.horizon,
        task.seed,
        network=task.network,
        coverage=task.coverage,
        theory=task.theory,
        progress=progress,
    )
    return Run(trace.frame(task.points), trace.regret_by_client, trace.seconds, bounded(trace.portrait))


def _attempt(task: Task, progress: Progress | None) -> Run | Failure:
    try:
        return _simulate(task, progress)
    except Exception as error:
        return Failure.of(error)


def _attempt_alone(task: Task) -> Run | Failure:
    with threadpool_limits(limits=1):
        return _attempt(task, None)


class _Worker:
    """The state of a worker process."""

    def __init__(self, leash: Connection, steps: Any) -> None:
        self._leash = leash
        self._steps = steps
        self._busy = False
        self._let_go = False
        self._turning = threading.Lock()

    def work(self, slot: int, task: Task) -> Run | Failure:
        with self._turning:
            if self._let_go:
                return Failure("stopped", "", configuration=False)
            self._busy = True
        self._report(slot)(0)
        outcome = _attempt(task, self._report(slot))
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

    def _report(self, slot: int) -> Callable[[int], None]:
        def report(steps: int) -> None:
            self._steps[slot] = steps

        return report


_worker: _Worker | None = None


def _become_worker(leash: Connection, steps: Any) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1)
    _worker = _Worker(leash, steps)
    threading.Thread(target=_worker.stop_when_let_go, daemon=True).start()


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


def _boot() -> None:
    """Let a worker process start and import."""


def _work(slot: int, task: Task) -> Run | Failure:
    assert _worker is not None
    return _worker.work(slot, task)


@contextmanager
def _surroundings_of_workers() -> Iterator[None]:
    """What a worker inherits: one thread for each numerical library, and Ctrl-C ignored from the start."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    # only the main thread may change handlers; elsewhere workers ignore Ctrl-C a moment later, when they initialise
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_compiled: set[tuple[object, ...]] = set()


def _compile_kernels(task: Task) -> None:
    """Run a little of this kind of task, once in each process.

    What it compiles is then in numba's cache for other processes, and compiling and loading are no part of `seconds`.
    """
    kind = (type(task.algorithm), type(task.environment), _conditions(task.network))
    if kind not in _compiled:
        _compiled.add(kind)
        # an error is for the real run to report
        with suppress(Exception):
            environment, network = _small(task.environment, task.network)
            simulate(task.algorithm, environment, min(task.horizon, 64), task.seed, network=network)


def _conditions(network: Network | None) -> tuple[object, ...] | None:
    """Which faults there are, of which sort, but not how many: as much of a network as kernels may depend on."""
    if network is None:
        return None
    values = asdict(network.faults).values()
    return tuple(value if isinstance(value, str) else value > 0 for value in values)


def _small(environment: Environment, network: Network | None) -> tuple[Environment, Network | None]:
    """The same for two clients: another graph, since networks differ in how few nodes they have, but what befalls
    messages on it stays as it is. Where the number of clients cannot be chosen, nothing is changed.
    """
    clients = getattr(environment, "clients", None)
    if not isinstance(clients, int):
        return environment, network
    few = min(2, clients)
    if network is not None:
        conditions = {item.name: getattr(network, item.name) for item in fields(Network)}
        network = Given.of(nx.path_graph(few), **conditions)
    return replace(environment, clients=few), network  # type: ignore[type-var]
