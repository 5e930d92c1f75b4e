"""Regret against what it cost."""

from __future__ import annotations

import pandas as pd

from fedbandits.report import axes as frames
from fedbandits.report.palette import GRID
from fedbandits.report.plots import error_bars
from fedbandits.report.plots.naming import name_points
from fedbandits.report.plots.picture import Picture, plot_svg
from fedbandits.report.plots.series import Series
from fedbandits.simulation.metrics import METRICS, Metric

_MARGINS = {"x": 0.09, "y": 0.12}


def trade_off(points: pd.DataFrame, cost: Metric, series: Series, *, caption: str, joined: bool = False) -> Picture:
    """Regret against communication at the end, error bars both ways; low and left is better.

    `points` has a row per point with `name`, and mean and error of both columns (`regret`, `regret_error`, ...).
    Points of one series are joined in their order if `joined`.
    """
    figure, axes = frames.picture_axes(cost.title, METRICS["regret"].title, right=0.955)
    axes.grid(True, axis="x", color=GRID.stand_in, linewidth=0.8)
    for name, own in points.groupby("name", sort=False):
        mark = series.mark(str(name), "point")
        error_bars.draw(axes, own, cost.name, "regret", series.style(str(name)), mark, joined=joined)
    axes.margins(x=_MARGINS["x"], y=_MARGINS["y"])
    for axis, column, unit in ((axes.xaxis, cost.name, cost.unit), (axes.yaxis, "regret", "")):
        values = points[column].to_numpy(dtype=float)
        if frames.natural_axis(axis, values, unit):
            frames.cover(axis, values, error_bars.errors(points, column), _MARGINS[axis.axis_name])
        elif axis is axes.yaxis and 0 <= values.min() < 0.5 * values.max():
            axes.set_ylim(bottom=0.0)
    written = name_points(axes, points, points.groupby("name", sort=False).tail(1), cost.name, series)
    key, title = f"regret-against-{cost.name}", f"Regret against {cost.title.lower()}"
    return Picture(key, title, caption, plot_svg(figure, key, title, written))
