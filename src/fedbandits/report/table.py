"""The summary table: one model, drawn in a terminal by rich and in a page as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from fedbandits.report.readable import exact, human, with_error
from fedbandits.report.summary import summarise
from fedbandits.simulation.metrics import METRICS, Metric

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_ARROWS = {"up": "↑", "down": "↓", "peer": "↔"}
_SPARED = ("Dec./s", "Scalars", "Messages", "Syncs", "Bytes")
"""What a terminal that is too narrow does without, in this order: each follows from another one, or is no result."""
_WIDE = 10_000
_NAMED = 16
"""How wide the column of names is at least, if there are such long ones."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a cell: as read, and exactly. `way` is "up", "down", "peer" or empty."""

    text: str
    exact: str
    way: str = ""

    @property
    def arrow(self) -> str:
        """The direction as a sign."""
        return _ARROWS.get(self.way, "")


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; `hint` explains it."""

    title: str
    hint: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm at one sweep point: a cell, of one figure or several, for every column.

    `bar` is its regret as a share of the largest one.
    """

    name: str
    cells: tuple[tuple[Figure, ...], ...]
    bar: float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; the first column names the algorithm."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """For a terminal: figures that go both ways stand one above the other, and what does not fit is left out."""
        shown, spared = list(range(len(self.columns))), []
        unbounded = options.update(max_width=_WIDE)  # or measuring would find that everything fits
        drawn = self._drawn(shown)
        for title in _SPARED:
            if Measurement.get(console, unbounded, drawn).minimum <= options.max_width:
                break
            gone = [place for place in shown if self.columns[place].title == title]
            if gone:
                shown.remove(gone[0])
                spared.append(title)
                drawn = self._drawn(shown)
        yield drawn
        if spared:
            yield Text(f"left out, since the terminal is narrow: {', '.join(spared)}", style="dim")

    def _drawn(self, shown: Sequence[int]) -> RichTable:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        longest = max((len(row.name) for row in self.rows), default=0)
        for place in shown:
            column = self.columns[place]
            table.add_column(
                column.title,
                justify="right" if column.numeric else "left",
                overflow="fold",
                no_wrap=column.numeric,
                min_width=min(longest, _NAMED) if place == 0 else _width(self.rows, place) if column.numeric else None,
            )
        for row in self.rows:
            table.add_row(*(Text(_lines(row.cells[place])) for place in shown))
        return table


def _lines(cell: tuple[Figure, ...]) -> str:
    return "\n".join(f"{figure.arrow} {figure.text}".strip() for figure in cell)


def _width(rows: Sequence[Row], place: int) -> int:
    """Of the longest figure in a column: one that is cut says something else."""
    return max((len(line) for row in rows for line in _lines(row.cells[place]).split("\n")), default=0)


def summary_table(results: Results) -> Table:
    """For every algorithm and sweep point the metrics that have a heading, as far as any run has them, and the speed.

    What is counted each way has a figure for each.
    """
    summary = summarise(results)
    ways = [way for way in _ARROWS if (summary[f"{way}_messages"] > 0).any()] or ["up", "down"]
    shown = [metric for metric in METRICS.values() if metric.heading and summary[metric.name].notna().any()]
    columns = [
        Column("Algorithm", numeric=False),
        *(Column(name, numeric=pd.api.types.is_numeric_dtype(summary[name])) for name in results.sweep),
        *(Column(metric.heading, _hint(metric)) for metric in shown),
        Column("Dec./s", "decisions per second of one process, environment included"),
    ]
    largest = summary["regret"].max()
    rows = []
    for _, point in summary.iterrows():
        name = str(point["algorithm"])
        cells: list[tuple[Figure, ...]] = [
            (Figure(name, name),),
            *((_plain(point[column]),) for column in results.sweep),
        ]
        for metric in shown:
            if f"{ways[0]}_{metric.name}" in METRICS:
                cells.append(tuple(_figure(point, metric, f"{way}_", way) for way in _used(point, ways)))
            else:
                cells.append((_figure(point, metric),))
        speed = Figure(human(float(point["decisions_per_second"])), _exactly(point, "decisions_per_second"))
        rows.append(Row(name, (*cells, (speed,)), float(point["regret"] / largest) if largest > 0 else 0.0))
    return Table(tuple(columns), tuple(rows))


def _hint(metric: Metric) -> str:
    return f"{metric.text}, at the end{', mean ± standard error over seeds' if metric.with_error else ''}"


def _used(point: pd.Series[Any], ways: Sequence[str]) -> Sequence[str]:
    """Where some talk to a server and some to each other, only the ways that this one uses."""
    if "peer" not in ways:
        return ways
    return [way for way in ways if point[f"{way}_messages"] > 0] or ways[-1:]


def _plain(value: Any) -> Figure:
    text = human(value) if isinstance(value, int | float) else str(value)
    return Figure(text, str(value))


def _figure(point: pd.Series[Any], metric: Metric, prefix: str = "", way: str = "") -> Figure:
    column = f"{prefix}{metric.name}"
    mean = float(point[column])
    text = with_error(mean, float(point[f"{column}_se"])) if metric.with_error else human(mean, metric.unit)
    return Figure(text, _exactly(point, column), way)


def _exactly(point: pd.Series[Any], column: str) -> str:
    mean, error = float(point[column]), float(point[f"{column}_se"])
    return exact(mean) if pd.isna(error) else f"{exact(mean)} ± {exact(error)}"
