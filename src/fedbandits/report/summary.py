"""Means and standard errors at the end of each run, in all the columns that tables and pictures need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.metrics import measure
from fedbandits.report.readable import human, with_error

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_DERIVED = "regret_per_client"


def check_finished(results: Results) -> None:
    """Refuse results that hold no run yet."""
    if results.frame.empty:
        raise ConfigError("there is no finished run to report on yet; run the same command again to go on")


def summarise(results: Results) -> pd.DataFrame:
    """What `Results.summary` gives, and mean and standard error of the regret per client in the same way."""
    final = results.compared()
    grouped = final.assign(**{_DERIVED: measure(final, _DERIVED)}).groupby(results.key, sort=False, dropna=False)
    added = pd.DataFrame({_DERIVED: grouped[_DERIVED].mean(), f"{_DERIVED}_se": grouped[_DERIVED].sem()})
    given = results.summary().set_index(results.key)
    return pd.concat([given, added.reindex(given.index)], axis=1).reset_index()


def in_short(results: Results) -> str:
    """Who has the lowest regret, and who the lowest among those that send at most a tenth as much; empty for sweeps."""
    summary = summarise(results)
    if results.sweep or len(summary) < 2:
        return ""
    best = summary.iloc[int(summary["regret"].argmin())]
    text = f"Lowest regret: {_told(best)}."
    frugal = summary[summary["bytes"] <= best["bytes"] / 10]
    if best["bytes"] > 0 and len(frugal):
        text += f" Among those that send at most a tenth of that: {_told(frugal.iloc[int(frugal['regret'].argmin())])}."
    return text


def _told(point: pd.Series[Any]) -> str:
    regret = with_error(float(point["regret"]), float(point["regret_se"]))
    return f"{point['algorithm']}, {regret}, having sent {human(float(point['bytes']), 'B')}"
