"""Running many simulations: cases under seeds, kept as they finish."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import plain, require_told_apart
from fedbandits.contract.world import Environment
from fedbandits.findings.ends import Ends
from fedbandits.findings.results import Results
from fedbandits.findings.run import Run
from fedbandits.simulation.arguments import check_network
from fedbandits.simulation.memory import check_memory
from fedbandits.simulation.options import RunOptions
from fedbandits.studies.engines import Engine, engine_named
from fedbandits.studies.store import Store
from fedbandits.studies.tasks import Task, fingerprint
from fedbandits.studies.watching import Unwatched, Watcher


@dataclass(frozen=True, slots=True)
class Case:
    """An algorithm under its label, at one point of a sweep."""

    label: str
    algorithm: Algorithm
    environment: Environment
    horizon: int
    point: Mapping[str, Any] = field(default_factory=dict)
    options: RunOptions = field(default_factory=RunOptions)
    further: Sequence[int] = ()
    """Seeds under which it is run beyond those of the study, because a claim asks for more of it."""
    chosen: Sequence[int] = ()
    """Seeds under which it is run because of the instances they stand for: no fair sample, but for claims that know."""

    @property
    def own(self) -> frozenset[int]:
        """All seeds that are its own."""
        return frozenset({*self.further, *self.chosen})


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be run under each seed, and what is said about it."""

    title: str
    source: str = ""
    description: str = ""
    cases: Sequence[Case]
    points: int | None
    """Steps kept of each run."""
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
    out: str | os.PathLike[str] | None = None,
    known: Ends | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Run every case of `study` under every seed and those of its own, except for what `out` already holds, and
    for what is `known` of it.
    """
    from fedbandits import __version__

    runner, chosen = engine_named(engine, jobs), seed_list(seeds)
    _check(study)
    settings = {
        "title": study.title,
        "source": study.source,
        "description": study.description,
        "identity": {"version": __version__, **study.identity},
        "sweep": list(study.sweep),
        "cases": [
            {
                "label": case.label,
                "point": plain(case.point),
                **({"further": list(case.further)} if case.further else {}),
                **({"chosen": list(case.chosen)} if case.chosen else {}),
            }
            for case in study.cases
        ],
        "claims": list(study.claims),
        "published": list(study.published),
        "seeds": chosen,
    }
    shared, own = frozenset(chosen), [case.own for case in study.cases]
    tasks = [
        Task(
            case.label,
            case.algorithm,
            case.environment,
            case.horizon,
            seed,
            case.point,
            study.points,
            case.options,
            portrayed=seed in shared,  # claims may ask for thousands of others, and pictures are of what all have met
        )
        for seed in sorted(shared.union(*own))
        for case, further in zip(study.cases, own, strict=True)
        if seed in shared or seed in further
    ]
    store = None
    if out is not None:
        for case in study.cases:
            require_told_apart(case.algorithm)
            require_told_apart(case.environment)
        store = Store(out, settings, chosen)
    runs = run_tasks(tasks, runner, store, watcher, known)
    rows = [(task.label, task.point, task.seed, run) for task, run in zip(tasks, runs, strict=True)]
    return Results.assemble(settings, rows)


def run_tasks(
    tasks: Sequence[Task],
    engine: Engine,
    store: Store | None = None,
    watcher: Watcher | None = None,
    known: Ends | None = None,
) -> list[Run]:
    """The results of `tasks`, in order. Each is stored as soon as it is there, whatever becomes of the others.

    Of what is `known` the end is taken as it is, whichever code it comes from.
    """
    watcher = watcher or Unwatched()
    runs: dict[int, Run] = {}
    watcher.begin(tasks)
    for index, task in enumerate(tasks):
        end = None if known is None else known.find(fingerprint(task))
        held = None if store is None else store.find(task, None if end is None else end.code)
        if held is None and end is not None:
            held = end.run
            if store is not None:
                store.keep(task, held, end.code)
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


def _check(study: Study) -> None:
    if not study.cases:
        raise ConfigError("algorithms: none given; name at least one")
    if min(case.horizon for case in study.cases) < 1:
        raise ConfigError("horizon: must be at least 1")
    if study.points is not None and study.points < 1:
        raise ConfigError(f"points: must be at least 1, or None for every step (got {study.points})")
    networks = {case.options.network is not None: case.options.network for case in study.cases}
    for given, network in networks.items():
        check_network(
            {case.label: case.algorithm for case in study.cases if (case.options.network is not None) == given},
            network,
        )
    for case in study.cases:
        check_memory(case.algorithm, case.environment, case.horizon)
