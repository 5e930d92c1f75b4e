"""Learning curves: what episodes brought, the first, the second and so on, where decisions come in episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.report import plots
from fedbandits.report.plots import Picture, Series
from fedbandits.simulation.metrics import Metric

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_POINTS = 100
"""Of a curve, at most."""
_SHOWN = 6
"""Points of a sweep that have pictures, at most."""
_KINDS = (
    (
        Metric("finished_reward", "Return of each episode", "what a client earned in an episode"),
        "What a client earns in an episode. Higher is better.",
    ),
    (
        Metric("finished_regret", "Value regret of each episode", "what a client lost in an episode"),
        "What the choices of an episode cost in value, V* - Q* at each of its stages. Lower is better.",
    ),
)


def learning_curves(results: Results, series: Series, note: str) -> Iterator[Picture]:
    """A picture of returns, and one of value regret where it is known; for each of a few points of a sweep.

    `note` says what bands are.
    """
    frame = results.curves
    if not (frame["episodes"] > 0).any():
        return
    points = _sweep_points(results)
    shown = points if len(points) <= _SHOWN else [points[i] for i in _thinned(len(points), _SHOWN)]
    left_out = f" {len(shown)} of {len(points)} points of the sweep are shown." if len(shown) < len(points) else ""
    for at, point in enumerate(shown):
        here = frame[_of(frame, point)]
        for metric, told in _KINDS:
            curve, every = by_episode(here, metric.name)
            if curve.empty:
                continue
            where = [f"{name}={value}" for name, value in point.items()]
            mean = f" Each point is the mean of {every} episodes." if every > 1 else ""
            yield plots.curves(
                curve,
                metric,
                series,
                caption=f"{told}{mean} {note}{left_out}",
                over="episode",
                key=f"{metric.name}-episodes-{at}",
                title=", ".join([metric.title, *where]),
            )


def by_episode(frame: pd.DataFrame, column: str) -> tuple[pd.DataFrame, int]:
    """What an episode added to the cumulative `column`, in the mean over clients, and over how many episodes a row is
    a mean: algorithm, seed, `episode`, `column`; empty where nobody knows it.

    Clients need not be in step: episode e is the one that began when clients had finished e - 1 of them in the mean.
    What lies between two rows of a run is divided evenly among the episodes that were finished there.
    """
    known = frame[frame[column].notna() & (frame["episodes"] > 0)]
    if known.empty:
        return known.assign(episode=0)[["algorithm", "seed", "episode", column]], 1
    runs = known.groupby(["algorithm", "seed"], sort=False)
    last = int(np.floor((known["episodes"] / known["clients"]).max() + 1e-9))
    finest = max(1, min(_POINTS, last, int(runs.size().max())))
    every = max(1, -(-last // finest))
    ends = np.arange(0, last + 1, every)
    return pd.concat([_added(own, column, ends) for _, own in runs], ignore_index=True), every


def _added(own: pd.DataFrame, column: str, ends: IntArray) -> pd.DataFrame:
    """What one run added to `column` between each two of `ends`, per episode, as far as it has come."""
    clients = own["clients"].to_numpy(dtype=np.float64)
    passed, first = np.unique(np.append(0.0, own["episodes"].to_numpy(dtype=np.float64) / clients), return_index=True)
    total: FloatArray = np.append(0.0, own[column].to_numpy(dtype=np.float64) / clients)[first]
    reached = ends[ends <= passed[-1] + 1e-9]
    added = np.diff(np.interp(reached, passed, total)) / np.diff(reached)
    whose = {"algorithm": own["algorithm"].iloc[0], "seed": own["seed"].iloc[0]}
    return pd.DataFrame({**whose, "episode": reached[1:], column: added})


def _sweep_points(results: Results) -> list[Mapping[str, Any]]:
    """Where in the sweep runs stand; one point that concerns everybody where there is no sweep."""
    if not results.sweep:
        return [{}]
    told = results.frame[list(results.sweep)].dropna().drop_duplicates()
    return [dict(zip(results.sweep, row, strict=True)) for row in told.itertuples(index=False)] or [{}]


def _of(frame: pd.DataFrame, point: Mapping[str, Any]) -> pd.Series[bool]:
    """Rows of runs at `point`, and of those that it does not concern."""
    mask = pd.Series(True, index=frame.index)
    for column, value in point.items():
        mask &= (frame[column] == value) | frame[column].isna()
    return mask


def _thinned(count: int, most: int) -> list[int]:
    return [int(i) for i in np.unique(np.round(np.linspace(0, count - 1, most)).astype(int))]
