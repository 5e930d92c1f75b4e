"""A metric over the steps of the runs, or over their episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedbandits.report import axes as frames
from fedbandits.report.plots.naming import LABEL_ROOM, NamedEnd, name_ends
from fedbandits.report.plots.picture import Picture, plot_svg
from fedbandits.report.plots.series import Series
from fedbandits.simulation.metrics import Metric


def curves(
    frame: pd.DataFrame,
    metric: Metric,
    series: Series,
    *,
    caption: str,
    over: str = "step",
    key: str = "",
    title: str = "",
) -> Picture:
    """`metric` over the column `over` for every algorithm, with error bands, each named at its right end.

    Logarithmic where the ends lie far apart, which the caption then says. `key` and `title` are those of the
    picture, where a page has several of one metric.
    """
    figure, axes = frames.picture_axes(over.capitalize(), right=LABEL_ROOM)
    grouped = frame.groupby([over, "algorithm"], sort=True)[metric.name]
    means, errors = grouped.mean().unstack(), grouped.sem().unstack()
    shown = [name for name in series.names if name in means]
    frames.number_axis(axes.xaxis)
    steps = means.index.to_numpy(dtype=float)
    axes.set_xlim(min(0.0, steps[0]), steps[-1])
    values = means[shown].to_numpy(dtype=float)
    logarithmic = frames.worth_a_log(np.array([means[name].dropna().iloc[-1] for name in shown]))
    if logarithmic:
        frames.log_axis(axes.yaxis, values, metric.unit)
    else:
        frames.number_axis(axes.yaxis, metric.unit)
    for name in shown:
        _draw(axes, means[name].dropna(), errors[name], name, series)
    axes.set_ylim(bottom=0.0 if (values >= 0).all() and axes.get_yscale() != "log" else None)
    ends = [NamedEnd(name, name, series.style(name), float(means[name].dropna().iloc[-1])) for name in shown]
    written = name_ends(axes, ends, series)
    key = key or f"{metric.name}-curves"
    hover = {
        "box": _box_of(axes),
        "unit": metric.unit,
        "end": float(axes.get_xlim()[1]),
        "start": float(axes.get_xlim()[0]),
        "over": over,
        "steps": [int(step) for step in steps],
        "series": [
            {
                "index": series.names.index(name),
                "name": name,
                "mean": _compact(means[name]),
                "error": _compact(errors[name]),
            }
            for name in shown
        ],
    }
    caption += " Logarithmic scale." if logarithmic else ""
    svg = plot_svg(figure, key, metric.title, written)
    return Picture(key, title or f"{metric.title} over {over}s", caption, svg, hover=hover)


def _draw(axes: Axes, mean: pd.Series[Any], error: pd.Series[Any], name: str, series: Series) -> None:
    look, at = series.style(name), mean.index.to_numpy(dtype=float)
    middle, off = mean.to_numpy(dtype=float), error.loc[mean.index].to_numpy(dtype=float)
    if np.isfinite(off).all():
        low = np.maximum(middle - off, 0.0) if (middle >= 0).all() else middle - off
        band = axes.fill_between(at, low, middle + off, color=look.ink.stand_in, alpha=0.18, linewidth=0)
        band.set_gid(series.mark(name, "band"))
    (line,) = axes.plot(at, middle, color=look.ink.stand_in, linestyle=look.dash, linewidth=1.8)
    line.set_gid(series.mark(name, "curve"))


def _box_of(axes: Axes) -> list[float]:
    """Left, top, right, bottom of the axes as shares of the picture, y downwards as in SVG."""
    box = axes.get_position()
    return [round(float(edge), 4) for edge in (box.x0, 1 - box.y1, box.x1, 1 - box.y0)]


def _compact(values: pd.Series[Any]) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.to_numpy(dtype=float)]
