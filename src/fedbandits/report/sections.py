"""The sections every report has: verdicts, table, pictures, settings, how to reproduce, units."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from fedbandits.contract.ledger import DIRECTIONS
from fedbandits.environments import ENVIRONMENTS
from fedbandits.report import plots
from fedbandits.report.command import compare_command
from fedbandits.report.knowledge import knowledge
from fedbandits.report.plots import BYTES, MESSAGES, NORMALISED, REGRET, REGRET_PER_CLIENT, Picture, Series
from fedbandits.report.portraits import portraits
from fedbandits.report.published import published
from fedbandits.report.readable import exact, human, with_error
from fedbandits.report.section import Section, SectionBuilder, render
from fedbandits.report.summary import summarise
from fedbandits.report.table import summary_table
from fedbandits.report.units import definitions

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
        Tile(str(final["algorithm"].nunique()), "algorithms", ", ".join(_names(results))),
        *(
            Tile(str(final[column].nunique()), f"values of {column}", _listed(final[column]))
            for column in results.sweep
        ),
        Tile(str(final["seed"].nunique()), "seeds each", _listed(final["seed"])),
        Tile(human(int(final["step"].max())), "steps", exact(int(final["step"].max()))),
        Tile(human(decisions), "decisions in all", exact(decisions)),
        Tile(_duration(seconds), "of computing", f"{seconds:.1f} seconds, summed over runs"),
    ]


def claims(results: Results) -> Section | None:
    """What the experiment claims, and whether it came true."""
    if not results.claims:
        return None
    return Section("claims", "Claims", render("claims.html", claims=results.claims))


def table(results: Results) -> Section:
    """The summary table, and in a sentence what it says."""
    values = {"table": summary_table(results), "series": Series(_names(results)), "short": in_short(results)}
    ways = [way for way in DIRECTIONS if (results.frame[f"{way}_messages"] > 0).any()]
    return Section("table", "Results", render("table.html", **values, ways=ways or ["up", "down"]))


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


def pictures(results: Results) -> Section:
    """Curves and trade-off, or, for a sweep, the ends against the sweep column."""
    series = Series(_names(results))
    drawn = list(_sweep_pictures(results, series) if results.sweep else _run_pictures(results, series))
    hover = {picture.key: picture.hover for picture in drawn if picture.hover}
    data = Markup(json.dumps(hover, separators=(",", ":")).replace("<", "\\u003c"))
    return Section("pictures", "Pictures", render("pictures.html", pictures=drawn, series=series, hover=data))


def settings(results: Results) -> Section:
    """Everything that was set."""
    return Section(
        "settings",
        "All settings",
        render("settings.html", rows=[row for row in _rows(results.settings) if row[0] != "command"]),
    )


def reproduce(results: Results) -> Section | None:
    """The command that gives these results again: the one noted in the settings, or that of a comparison."""
    command = results.settings.get("command") or compare_command(results.settings)
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
    pictures,
    portraits,
    knowledge,
    settings,
    reproduce,
    units,
]


_LONG = 400
"""Letters of a list in the settings, such as the links of a graph, above which only their number is told."""
_CROWD = 12
"""With more labels than that, the trade-off shows algorithms, each with all its parameters."""


def _run_pictures(results: Results, series: Series) -> Iterator[Picture]:
    frame, points = results.frame, _points(results)
    yield plots.curves(frame, REGRET, series, caption=f"All clients together. {_band(results)}")
    if _counts_hits(results):
        yield plots.curves(
            frame,
            NORMALISED,
            series,
            caption="Reward divided by that of random choices, so 1 is chance. Higher is better.",
        )
    if not (frame["bytes"] > 0).any():
        return
    caption = "At the end of the run. Lower left is better: little regret for little talk."
    if len(series.names) > _CROWD:
        kinds = [str(results.settings["algorithms"][name]["name"]) for name in points["name"]]
        families = Series(list(dict.fromkeys(kinds)), offset=len(series.names))
        caption += " Points of one algorithm under several parameters are joined, in the order given."
        yield plots.trade_off(points.assign(name=kinds), BYTES, families, caption=caption, joined=True)
    else:
        yield plots.trade_off(points, BYTES, series, caption=caption)
    for metric in (BYTES, MESSAGES):
        yield plots.curves(frame, metric, series, caption=_ways(frame))


def _ways(frame: pd.DataFrame) -> str:
    """Whose talk is counted together."""
    starred = bool((frame["up_bytes"] + frame["down_bytes"] > 0).any())
    if not (frame["peer_bytes"] > 0).any():
        return "Both directions together."
    if not starred:
        return "Between clients, once for every link crossed."
    return "To the server, to clients, and between clients once for every link crossed, all together."


def _sweep_pictures(results: Results, series: Series) -> Iterator[Picture]:
    points, swept = _points(results), _swept(results)
    if len(swept) > 1 and not _is_grid(points, swept):
        paired = ", ".join(swept)
        points = points.assign(
            **{paired: [", ".join(str(row[name]) for name in swept) for _, row in points.iterrows()]}
        )
        swept = [paired]
    metrics = [REGRET_PER_CLIENT] * ("clients" in swept) + [REGRET, BYTES, MESSAGES]
    for column in swept:
        here = points[points[column].notna()]
        here = here.assign(line=[_line(row, swept, column) for _, row in here.iterrows()])
        for metric in metrics:
            if (here[metric.column] > 0).any():
                yield plots.sweep(here, column, metric, series, caption=f"At the end of the run. {_bars(results)}")
    if (points["bytes"] > 0).any():
        ordered = all(pd.api.types.is_numeric_dtype(points[column]) for column in swept)
        caption = f"One point for each value swept over{', joined in order' if ordered else ''}. Lower left is better."
        yield plots.trade_off(points, BYTES, series, caption=caption, joined=ordered)


def _swept(results: Results) -> list[str]:
    """The sweep columns that take more than one value."""
    final = results.final()
    return [column for column in results.sweep if final[column].nunique() > 1]


def _is_grid(points: pd.DataFrame, swept: Sequence[str]) -> bool:
    """Whether every combination of the swept values was run, as opposed to a list of chosen ones."""
    run = points[list(swept)].dropna().drop_duplicates()
    return run.empty or len(run) == math.prod(run[column].nunique() for column in swept)


def _counts_hits(results: Results) -> bool:
    """Whether rewards are hits, which random choices get some of, so that a ratio to those means something."""
    name = results.settings.get("environment", {}).get("name")
    return name in ENVIRONMENTS and ENVIRONMENTS[name].about.family == "recommendation"


def _line(point: pd.Series[Any], swept: Sequence[str], column: str) -> str:
    """The algorithm and, on a grid, where on the other axes it stands."""
    others = [f"{name}={point[name]}" for name in swept if name != column and pd.notna(point[name])]
    return ", ".join([str(point["name"]), *others])


def _points(results: Results) -> pd.DataFrame:
    summary = summarise(results)
    return summary.rename(
        columns=lambda name: f"{name.removesuffix('_se')}_error" if name.endswith("_se") else name
    ).rename(columns={"algorithm": "name"})


def _names(results: Results) -> list[str]:
    return [str(name) for name in pd.unique(results.frame["algorithm"])]


def _band(results: Results) -> str:
    seeds = results.frame["seed"].nunique()
    return f"Mean over {seeds} seeds, band of one standard error." if seeds > 1 else "One seed: no error band."


def _bars(results: Results) -> str:
    seeds = results.frame["seed"].nunique()
    return f"Mean over {seeds} seeds, bars of one standard error." if seeds > 1 else "One seed: no error bars."


def _listed(values: pd.Series[Any]) -> str:
    return ", ".join(str(value) for value in pd.unique(values))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _rows(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A row for each table of plain values, titled by where it stands, and for each value that stands alone."""
    for key, value in settings.items():
        title = f"{prefix}{key}"
        if not isinstance(value, Mapping):
            yield title, [("", _shown(value))]
        elif any(isinstance(item, Mapping) for item in value.values()):
            yield from _rows(value, f"{title} · ")
        else:
            yield title, [(name, _shown(item)) for name, item in value.items()] or [("", "none")]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > _LONG:
        return f"{len(value)} entries"
    return text
