"""One task, from its kernels to what is kept of it."""

from __future__ import annotations

from fedbandits.contract.portrait import bounded
from fedbandits.contract.world import Environment
from fedbandits.findings.run import Run
from fedbandits.simulation.loop import Progress, Simulation
from fedbandits.studies.engines.failures import Failure
from fedbandits.studies.engines.warmup import compile_kernels
from fedbandits.studies.tasks import Task


def perform(task: Task, progress: Progress | None, environment: Environment | None = None) -> Run:
    """The result of `task`, perhaps in an `environment` that stands for its own; raises what its simulation raises."""
    world = task.environment if environment is None else environment
    # not `simulate`, which refuses a network that an algorithm does not talk on: others of the study do
    simulation = Simulation(task.algorithm, world, task.horizon, task.seed, **task.options.keywords())
    simulation.run(progress=progress)
    trace = simulation.trace()
    portrait = bounded(trace.portrait) if task.portrayed else {}
    return Run(trace.frame(task.points), trace.regret_by_client, trace.seconds, portrait)


def attempt(task: Task, progress: Progress | None, environment: Environment | None = None) -> Run | Failure:
    """As `perform`, the kernels being compiled before; or what went wrong, in a form that can travel."""
    compile_kernels(task)
    try:
        return perform(task, progress, environment)
    except Exception as error:
        return Failure.of(error)
