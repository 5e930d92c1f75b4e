"""Published figures beside ours: one table for page and terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.findings.published import Beside
from fedbandits.report.readable import exact, human, with_error
from fedbandits.report.section import Section, render
from fedbandits.report.table import Column, Figure, Row, Table

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_NOTHING = (Figure("", ""),)


def published(results: Results) -> Section | None:
    """What the publication printed, and what came out here."""
    if not results.published:
        return None
    return Section("published", "Published figures and ours", render("published.html", table=published_table(results)))


def published_table(results: Results) -> Table:
    """A row for each algorithm, a column for each sweep point and metric; in a cell the published figure, then ours.

    Where all figures are of one metric, the corner of the table says so instead of every column.
    """
    metrics = {one.metric for one in results.published}
    common = metrics.pop() if len(metrics) == 1 and all(one.point for one in results.published) else ""
    figures = {(one.label, _heading("" if common else one.metric, one.point)): one for one in results.published}
    headings = list(dict.fromkeys(heading for _, heading in figures))
    labels = list(dict.fromkeys(label for label, _ in figures))
    columns = (
        Column(f"{_words(common)} of" if common else "Algorithm", numeric=False),
        *(Column(heading) for heading in headings),
    )
    rows = []
    for label in labels:
        cells = [_cell(figures[label, heading]) if (label, heading) in figures else _NOTHING for heading in headings]
        rows.append(Row(label, ((Figure(label, label),), *cells), 0.0))
    return Table(columns, tuple(rows))


def _heading(metric: str, point: Mapping[str, Any]) -> str:
    where = ", ".join(f"{name} {value}" for name, value in point.items())
    return " at ".join(part for part in (_words(metric), where) if part)


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _cell(one: Beside) -> tuple[Figure, ...]:
    ours = f"{exact(one.mean)} ± {exact(one.error)} over {one.seeds} seeds"
    return (
        Figure(human(one.value), f"{exact(one.value)}, {one.where}"),
        Figure(with_error(one.mean, one.error) if one.seeds else "–", ours if one.seeds else "not run yet"),
    )
