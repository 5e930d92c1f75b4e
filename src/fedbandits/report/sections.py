"""The sections every report has: verdicts, table, pictures, settings, how to reproduce, units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.contract.ledger import DIRECTIONS
from fedbandits.report.budgets import budgets
from fedbandits.report.command import command_of
from fedbandits.report.games import games
from fedbandits.report.knowledge import knowledge
from fedbandits.report.labels import shortened
from fedbandits.report.pictures import pictures
from fedbandits.report.plots import Series
from fedbandits.report.portraits import portraits
from fedbandits.report.published import published
from fedbandits.report.section import Section, SectionBuilder, render
from fedbandits.report.summary import in_short
from fedbandits.report.swatch import swatch
from fedbandits.report.table import summary_table
from fedbandits.report.units import definitions

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


def claims(results: Results) -> Section | None:
    """What the experiment claims, and whether it came true."""
    if not results.claims:
        return None
    return Section("claims", "Claims", render("claims.html", claims=results.claims))


def table(results: Results) -> Section:
    """The summary table, and in a sentence what it says."""
    values = {"table": summary_table(results), "series": Series(results.algorithms), "short": in_short(results)}
    ways = [way for way in DIRECTIONS if (results.frame[f"{way}_messages"] > 0).any()] or ["up", "down"]
    written = shortened(results.algorithms, _NAME)
    return Section("table", "Results", render("table.html", **values, ways=ways, written=written, swatch=swatch))


def settings(results: Results) -> Section:
    """Everything that was set."""
    return Section(
        "settings",
        "All settings",
        render("settings.html", rows=[row for row in _rows(results.settings) if row[0] != "command"]),
    )


def reproduce(results: Results) -> Section | None:
    """The command that gives these results again: the one noted in the settings, or that of a comparison."""
    command = command_of(results)
    if command is None:
        return None
    return Section("reproduce", "Reproduce", render("reproduce.html", command=command))


def units(results: Results) -> Section:
    """What is counted, and how."""
    private = bool(results.frame["epsilon"].notna().any())
    return Section("units", "What the units mean", render("units.html", definitions=definitions(), private=private))


SECTIONS: list[SectionBuilder] = [
    claims,
    published,
    table,
    budgets,
    pictures,
    portraits,
    games,
    knowledge,
    settings,
    reproduce,
    units,
]


_NAME = 36
"""Letters of a name in the table."""
_LONG = 400
"""Letters of a list in the settings, such as the links of a graph, above which only their number is told."""


def _rows(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A row for each table of plain values, titled by where it stands, and for each value that stands alone."""
    for key, value in settings.items():
        title = f"{prefix}{key}"
        if not isinstance(value, Mapping):
            yield title, [("", _shown(value))]
        elif any(isinstance(item, Mapping) for item in value.values()):
            yield from _rows(value, f"{title} · ")
        else:
            alone = {name: item for name, item in value.items() if not _of_tables(item)}
            yield title, [(name, _shown(item)) for name, item in alone.items()] or [("", "none")]
            for name in [name for name in value if name not in alone]:
                for part in value[name]:
                    yield from _rows({f"{name} {part.get('name', '')}".strip(): part}, f"{title} · ")


def _of_tables(value: Any) -> bool:
    """Whether it is a list of tables, such as stages: each of them has a row of its own."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > _LONG:
        return f"{len(value)} entries"
    return text
