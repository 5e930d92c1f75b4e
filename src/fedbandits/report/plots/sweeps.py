"""A metric against what was swept over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedbandits.report import axes as frames
from fedbandits.report.palette import Style
from fedbandits.report.plots import error_bars
from fedbandits.report.plots.naming import LABEL_ROOM, NamedEnd, name_ends
from fedbandits.report.plots.picture import DrawnLine, Picture, plot_svg
from fedbandits.report.plots.series import Series
from fedbandits.simulation.metrics import Metric

_APART = 0.16
"""Distance of points above one name, as a share of its room, if that is enough for a mark."""
_MARK = 10.0
"""Points that a mark needs."""
_MARGIN = 0.05


def sweep(points: pd.DataFrame, column: str, metric: Metric, series: Series, *, caption: str) -> Picture:
    """`metric` at the end against the sweep column, with error bars; log-log where both are positive numbers.

    `points` is as for `trade_off`; rows of equal `line` belong together, which is what the line is called as well.
    Lines of one algorithm share its colour and differ in dash and marker. They are joined along numbers, infinity among
    them; names have no order, so points stand side by side above each.
    """
    figure, axes = frames.picture_axes(column, right=LABEL_ROOM)
    values = list(pd.unique(points[column]))
    numbers = pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=float)
    ordered = not np.isnan(numbers).any()
    written: dict[str, str] = {}
    if not np.isfinite(numbers).all():
        written |= frames.named_axis(axes, [str(value) for value in values])
        room = axes.get_position().width * frames.WIDTH / len(values)
        apart = 0.0 if ordered else max(_APART, _MARK / room)
        points = points.assign(at=_side_by_side(points, column, values, apart))
    else:
        points = points.assign(at=pd.to_numeric(points[column]).astype(float))
    looks = _looks(points, series)
    ends = []
    for line, rows in points.groupby("line", sort=False):
        name = str(rows["name"].iloc[0])
        rows = rows.sort_values("at")
        look = looks[str(line)]
        error_bars.draw(axes, rows, "at", metric.name, look, series.mark(name, "point"), joined=ordered)
        ends.append(NamedEnd(name, str(line), look, float(rows[metric.name].iloc[-1])))
    if np.isfinite(numbers).all():
        if (numbers > 0).all() or frames.worth_a_log(numbers):
            frames.log_axis(axes.xaxis, numbers)
            frames.cover(axes.xaxis, numbers, np.zeros(len(numbers)), _MARGIN)
        else:
            frames.number_axis(axes.xaxis)
        frames.tick_at(axes.xaxis, list(numbers))
    measured = points[metric.name].to_numpy(dtype=float)
    if (measured > 0).any() and not (measured < 0).any():
        frames.log_axis(axes.yaxis, measured, metric.unit)
        frames.cover(axes.yaxis, measured, error_bars.errors(points, metric.name), _MARGIN)
    else:
        frames.number_axis(axes.yaxis, metric.unit)
    written |= name_ends(axes, ends, series)
    key, title = f"{metric.name}-by-{column}", f"{metric.title} by {column}"
    several = len(looks) > points["name"].nunique()
    lines = [DrawnLine(look, line) for line, look in looks.items()] if several else []
    return Picture(key, title, caption, plot_svg(figure, key, title, written), lines)


def _looks(points: pd.DataFrame, series: Series) -> dict[str, Style]:
    """The style of every line: the series it belongs to, and which of its lines it is."""
    seen: dict[str, int] = {}
    looks = {}
    for line, rows in points.groupby("line", sort=False):
        name = str(rows["name"].iloc[0])
        looks[str(line)] = series.style(name, seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return looks


def _side_by_side(points: pd.DataFrame, column: str, places: Sequence[Any], apart: float) -> list[float]:
    """Where each point stands: at the place of its name, the lines in their order and, if there is room, `apart`."""
    lines = list(pd.unique(points["line"]))
    apart = min(apart, 0.8 / len(lines))
    middle = (len(lines) - 1) / 2
    return [
        places.index(place) + apart * (lines.index(line) - middle)
        for place, line in zip(points[column], points["line"], strict=True)
    ]
