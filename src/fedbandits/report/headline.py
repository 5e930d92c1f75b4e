"""The size of what was run, above everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbandits.report.readable import exact, human

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the headline."""

    value: str
    label: str
    exact: str


def headline(results: Results) -> list[Tile]:
    """The size of what was run, in a handful of figures."""
    final = results.final()
    decisions, seconds = int(final["decisions"].sum()), float(final["seconds"].sum())
    return [
        Tile(str(len(results.algorithms)), "algorithms", ", ".join(map(str, results.algorithms))),
        *(
            Tile(str(final[column].nunique()), f"values of {column}", _listed(final[column]))
            for column in results.sweep
        ),
        Tile(results.seeds, "seeds each", _listed(final["seed"])),
        Tile(human(int(final["step"].max())), "steps", exact(int(final["step"].max()))),
        Tile(human(decisions), "decisions in all", exact(decisions)),
        Tile(duration(seconds), "of computing", f"{seconds:.1f} seconds, summed over runs"),
    ]


def _listed(values: pd.Series[Any]) -> str:
    return ", ".join(str(value) for value in pd.unique(values))


def duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
