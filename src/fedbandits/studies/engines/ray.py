"""Simulations on a Ray cluster."""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from threadpoolctl import threadpool_limits

from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.run import Run
from fedbandits.studies.engines.attempts import attempt
from fedbandits.studies.engines.failures import Failure
from fedbandits.studies.engines.parcels import require_portable
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Watcher


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
        require_portable(tasks.values())
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


def _attempt_alone(task: Task) -> Run | Failure:
    with threadpool_limits(limits=1):
        return attempt(task, None)
