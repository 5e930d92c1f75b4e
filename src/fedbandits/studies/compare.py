"""Running many simulations: algorithms side by side, over seeds, and over the points of a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import describe, plain
from fedbandits.contract.world import Environment
from fedbandits.findings.results import Results
from fedbandits.findings.run import Run
from fedbandits.graphs.network import Network, as_network
from fedbandits.studies.engines import Engine, engine_named
from fedbandits.studies.store import Store
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Unwatched, Watcher

if TYPE_CHECKING:
    import networkx as nx

Path = str | os.PathLike[str]


def compare(
    algorithms: Mapping[str, Algorithm],
    environment: Environment,
    horizon: int,
    seeds: int | Sequence[int],
    jobs: int = 1,
    *,
    network: Network | nx.Graph[int] | None = None,
    engine: str = "local",
    points: int | None = 200,
    out: Path | None = None,
    progress: Watcher | None = None,
) -> pd.DataFrame:
    """Run every algorithm under every seed and return one tidy table.

    One row per (algorithm, seed, step): algorithm, seed, clients, the columns of `Trace.frame`, seconds. `seeds=10`
    means 0..9. All algorithms meet the same seeds, hence the same arms and noise: differences within a seed are paired.
    `network` is what agents without a server talk on, as in `simulate`; under one seed all algorithms have one graph.
    `points` thins each run to that many evenly spaced steps, None keeps all. `jobs` simulations run side by side, and
    the result does not depend on how many. With `out`, results are written there as they finish, and what is already
    there is not run again. A script that uses several jobs needs `if __name__ == "__main__":`.

    >>> import fedbandits as fb
    >>> env = fb.environments.Linear(clients=5, dim=4, arms=6)
    >>> both = {"dis": fb.algorithms.DisLinUCB(threshold=1.0), "alone": fb.algorithms.IndependentLinUCB()}
    >>> frame = fb.compare(both, env, horizon=100, seeds=3, points=10)
    >>> len(frame), list(frame.columns[:5])
    (60, ['algorithm', 'seed', 'clients', 'step', 'decisions'])
    """
    return comparison(
        algorithms,
        environment,
        horizon,
        seeds,
        jobs,
        network=network,
        engine=engine,
        points=points,
        out=out,
        progress=progress,
    ).frame


def comparison(
    algorithms: Mapping[str, Algorithm],
    environment: Environment,
    horizon: int,
    seeds: int | Sequence[int],
    jobs: int = 1,
    *,
    network: Network | nx.Graph[int] | None = None,
    engine: str = "local",
    points: int | None = 200,
    out: Path | None = None,
    progress: Watcher | None = None,
) -> Results:
    """`compare`, with everything a table or report wants to know."""
    place = None if network is None else as_network(network)
    cases = [Case(label, algorithm, environment, horizon, network=place) for label, algorithm in algorithms.items()]
    identity = {
        "environment": describe(environment),
        **({} if place is None else {"network": describe(place)}),
        "algorithms": {label: describe(algorithm) for label, algorithm in algorithms.items()},
        "run": {"horizon": horizon, "points": points},
    }
    study = Study(title="Comparison", cases=cases, points=points, identity=identity)
    return run_study(study, seeds, jobs, engine=engine, out=out, watcher=progress)


@dataclass(frozen=True, slots=True)
class Case:
    """An algorithm under its label, at one point of a sweep."""

    label: str
    algorithm: Algorithm
    environment: Environment
    horizon: int
    point: Mapping[str, Any] = field(default_factory=dict)
    network: Network | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be run under each seed, and what is said about it."""

    title: str
    source: str = ""
    description: str = ""
    cases: Sequence[Case]
    points: int | None
    """Steps kept of each run."""
    coverage: bool = False
    """Whether confidence ellipsoids are checked."""
    theory: bool = False
    """Whether what theory says of the regret is evaluated."""
    identity: Mapping[str, Any]
    """What the results depend on, for people to read and for `Store` to compare."""
    sweep: Sequence[str] = ()
    claims: Sequence[Mapping[str, Any]] = ()
    published: Sequence[Mapping[str, Any]] = ()


def run_study(
    study: Study,
    seeds: int | Sequence[int],
    jobs: int = 1,
    *,
    engine: str = "local",
    out: Path | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Run every case of `study` under every seed, except for what `out` already holds."""
    from fedbandits import __version__

    runner, chosen = engine_named(engine, jobs), seed_list(seeds)
    if not study.cases:
        raise ConfigError("algorithms: none given; name at least one")
    if min(case.horizon for case in study.cases) < 1:
        raise ConfigError("horizon: must be at least 1")
    for case in study.cases:
        name = case.algorithm.about.name
        if case.network is None and case.algorithm.about.topology == "graph":
            raise ConfigError(
                f"{name if case.label == name else f'{case.label}: {name}'} talks on a graph: give a network, by "
                "network= or, on the command line, by -n NAME"
            )
    if study.points is not None and study.points < 1:
        raise ConfigError(f"points: must be at least 1, or None for every step (got {study.points})")
    settings = {
        "title": study.title,
        "source": study.source,
        "description": study.description,
        "identity": {"version": __version__, **study.identity},
        "sweep": list(study.sweep),
        "cases": [{"label": case.label, "point": plain(case.point)} for case in study.cases],
        "claims": list(study.claims),
        "published": list(study.published),
        "seeds": chosen,
    }
    tasks = [
        Task(
            case.label,
            case.algorithm,
            case.environment,
            case.horizon,
            seed,
            case.point,
            study.points,
            study.coverage,
            case.network,
            study.theory,
        )
        for seed in chosen
        for case in study.cases
    ]
    store = Store(out, settings, chosen) if out is not None else None
    runs = run_tasks(tasks, runner, store, watcher)
    rows = [(task.label, task.point, task.seed, run) for task, run in zip(tasks, runs, strict=True)]
    return Results.assemble(settings, rows)


def run_tasks(
    tasks: Sequence[Task], engine: Engine, store: Store | None = None, watcher: Watcher | None = None
) -> list[Run]:
    """The results of `tasks`, in order. Each is stored as soon as it is there, whatever becomes of the others."""
    watcher = watcher or Unwatched()
    runs: dict[int, Run] = {}
    watcher.begin(tasks)
    if store is not None:
        for index, task in enumerate(tasks):
            held = store.find(task)
            if held is not None:
                runs[index] = held
                watcher.finish(index, resumed=True)
    missing = {index: task for index, task in enumerate(tasks) if index not in runs}
    with closing(engine.run(missing, watcher)) as finished:
        for index, run in finished:
            if store is not None:
                store.keep(tasks[index], run)
            runs[index] = run
            watcher.finish(index, resumed=False)
    return [runs[index] for index in range(len(tasks))]


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """A number of seeds means 0, 1, ...; a list is taken as it is."""
    if isinstance(seeds, int):
        if seeds < 1:
            raise ConfigError(f"seeds: must be at least 1 (got {seeds})")
        return list(range(seeds))
    chosen = list(seeds)
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise ConfigError(f"seeds: must be different numbers, none of them negative, and at least one (got {chosen})")
    return chosen
