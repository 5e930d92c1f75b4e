"""Which pictures a report has: curves and trade-off, or, for a sweep, the ends against what was swept over; and what
episodes brought, where there are any.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from fedbandits.environments import ENVIRONMENTS
from fedbandits.findings.metrics import metric_of
from fedbandits.report import plots
from fedbandits.report.labels import shortened
from fedbandits.report.learning import learning_curves
from fedbandits.report.plots import Picture, Series
from fedbandits.report.remarks import remarks
from fedbandits.report.section import Section, render
from fedbandits.report.summary import summarise
from fedbandits.report.swatch import swatch

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

REGRET, REGRET_PER_CLIENT = metric_of("regret"), metric_of("regret_per_client")
NORMALISED, BYTES, MESSAGES = metric_of("normalised_reward"), metric_of("bytes"), metric_of("messages")
_LEGEND = 44
"""Letters of a name in the legend."""
_CROWD = 12
"""With more labels than that, the trade-off shows algorithms, each with all its parameters."""


def pictures(results: Results) -> Section:
    """Curves and trade-off, or, for a sweep, the ends against the sweep column; then learning curves."""
    series = Series(results.algorithms)
    drawn = list(_sweep_pictures(results, series) if results.sweep else _run_pictures(results, series))
    drawn += learning_curves(results, series, _band(results))
    hover = {picture.key: picture.hover for picture in drawn if picture.hover}
    data = Markup(json.dumps(hover, separators=(",", ":")).replace("<", "\\u003c"))
    return Section(
        "pictures",
        "Pictures",
        render(
            "pictures.html",
            pictures=drawn,
            series=series,
            written=shortened(series.names, _LEGEND),
            shortened=shortened,
            swatch=swatch,
            remarks=remarks(results),
            hover=data,
        ),
    )


def _run_pictures(results: Results, series: Series) -> Iterator[Picture]:
    frame, points = results.curves, _points(results)
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
            if (here[metric.name] > 0).any():
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
    return name in ENVIRONMENTS and ENVIRONMENTS.about(name).family == "recommendation"


def _line(point: pd.Series[Any], swept: Sequence[str], column: str) -> str:
    """The algorithm and, on a grid, where on the other axes it stands."""
    others = [f"{name}={point[name]}" for name in swept if name != column and pd.notna(point[name])]
    return ", ".join([str(point["name"]), *others])


def _points(results: Results) -> pd.DataFrame:
    summary = summarise(results)
    return summary.rename(
        columns=lambda name: f"{name.removesuffix('_se')}_error" if name.endswith("_se") else name
    ).rename(columns={"algorithm": "name"})


def _band(results: Results) -> str:
    seeds = results.curves["seed"].nunique()
    return f"Mean over {seeds} seeds, band of one standard error." if seeds > 1 else "One seed: no error band."


def _bars(results: Results) -> str:
    seeds = results.compared()["seed"].nunique()
    return f"Mean over {seeds} seeds, bars of one standard error." if seeds > 1 else "One seed: no error bars."
