"""Where simulations run: in this process, in local processes, or on a Ray cluster."""

from __future__ import annotations

from fedbandits.contract.catalogue import ConfigError
from fedbandits.studies.engines.contract import Engine
from fedbandits.studies.engines.processes import Processes
from fedbandits.studies.engines.ray import RayCluster
from fedbandits.studies.engines.this_process import ThisProcess

__all__ = ["ENGINES", "Engine", "engine_named"]

ENGINES = ("local", "ray")


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
    return ThisProcess() if jobs == 1 else Processes(jobs)
