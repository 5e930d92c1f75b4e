"""Algorithms side by side, under the same seeds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

import pandas as pd

from fedbandits.contract.description import describe
from fedbandits.findings.results import Results
from fedbandits.simulation.arguments import AlgorithmsLike, EnvironmentLike, algorithms_of, environment_of
from fedbandits.simulation.options import Options, RunOptions
from fedbandits.studies.study import Case, Study, run_study
from fedbandits.studies.watching import Watcher

Path = str | os.PathLike[str]


def compare(
    algorithms: AlgorithmsLike,
    environment: EnvironmentLike,
    horizon: int,
    seeds: int | Sequence[int],
    jobs: int = 1,
    *,
    engine: str = "local",
    points: int | None = 200,
    out: Path | None = None,
    progress: Watcher | None = None,
    **options: Unpack[Options],
) -> pd.DataFrame:
    """Run every algorithm under every seed and return one tidy table.

    One row per (algorithm, seed, step): algorithm, seed, clients, the columns of `Trace.frame`, seconds. `seeds=10`
    means 0..9. All algorithms meet the same seeds, hence the same arms and noise: differences within a seed are paired.
    `algorithms` are a mapping from labels to algorithms, or a list, which is labelled by their names. Algorithms,
    environment and network are given as values, as classes or in words, as on the command line. `network`, `wire`,
    `coverage`, `theory` and `attack` are as in `simulate`; under one seed all algorithms have one graph, and the same
    agents lie. `points` thins each run to that many evenly spaced steps, None keeps all. `jobs` simulations run side by
    side, and the result does not depend on how many. With `out`, results are written there as they finish, and what is
    already there is not run again.

    >>> import fedbandits as fb
    >>> env = fb.environments.Linear(clients=5, dim=4, arms=6)
    >>> both = {"dis": fb.algorithms.DisLinUCB(threshold=1.0), "alone": fb.algorithms.IndependentLinUCB()}
    >>> frame = fb.compare(both, env, horizon=100, seeds=3, points=10)
    >>> len(frame), list(frame.columns[:5])
    (60, ['algorithm', 'seed', 'clients', 'step', 'decisions'])
    >>> frame = fb.compare(["dislinucb:threshold=1", "random"], "linear:clients=5,dim=4,arms=6", horizon=100, seeds=3)
    >>> list(frame["algorithm"].unique())
    ['dislinucb', 'random']
    """
    return comparison(
        algorithms,
        environment,
        horizon,
        seeds,
        jobs,
        engine=engine,
        points=points,
        out=out,
        progress=progress,
        **options,
    ).frame


def comparison(
    algorithms: AlgorithmsLike,
    environment: EnvironmentLike,
    horizon: int,
    seeds: int | Sequence[int],
    jobs: int = 1,
    *,
    engine: str = "local",
    points: int | None = 200,
    out: Path | None = None,
    progress: Watcher | None = None,
    **options: Unpack[Options],
) -> Results:
    """`compare`, with everything a table or report wants to know."""
    chosen, world, how = algorithms_of(algorithms), environment_of(environment), RunOptions.of(**options)
    identity = {
        "environment": describe(world),
        **({} if how.network is None else {"network": describe(how.network)}),
        **({} if how.attack is None else {"attack": describe(how.attack)}),
        "algorithms": {label: describe(algorithm) for label, algorithm in chosen.items()},
        "run": {"horizon": horizon, "points": points, **_asked_for(how)},
    }
    cases = [Case(label, algorithm, world, horizon, options=how) for label, algorithm in chosen.items()]
    study = Study(title="Comparison", cases=cases, points=points, identity=identity)
    return run_study(study, seeds, jobs, engine=engine, out=out, watcher=progress)


def _asked_for(options: RunOptions) -> dict[str, Any]:
    """What differs from a run without options, so that directories from before there were any are still known."""
    packed = options.wire is not None and options.wire.packed
    asked = {"coverage": options.coverage, "theory": options.theory, "packed": packed}
    return {name: True for name, wanted in asked.items() if wanted}
