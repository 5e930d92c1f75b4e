"""The pictures of a report: each takes a tidy frame and returns a `Picture`. No pyplot, no global state.

Lines are means over seeds, bands and bars one standard error either way. With a single seed there is nothing to
estimate an error from, and none is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbandits.contract.arrays import FloatArray
from fedbandits.report import axes as frames
from fedbandits.report.labels import beside, spread
from fedbandits.report.palette import GRID, SURFACE, TEXT, Style, style
from fedbandits.report.svg import inline_svg, series_mark

_LABEL_ROOM = 0.745
"""Where the axes end when curves are named at their right end."""
_LABEL_LETTERS = 20
_APART = 0.16
"""Distance of points above one name, as a share of its room."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of the results, and what to call it."""

    column: str
    title: str
    unit: str = ""


REGRET = Metric("regret", "Regret")
REGRET_PER_CLIENT = Metric("regret_per_client", "Regret per client")
NORMALISED = Metric("normalised_reward", "Normalised reward")
BYTES = Metric("bytes", "Bytes sent", "B")
MESSAGES = Metric("messages", "Messages sent")


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished plot. `hover` is what the page's script needs to show values under the pointer."""

    key: str
    title: str
    caption: str
    svg: Markup
    hover: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Who is drawn, in which order: the position in `names` is the style, the same in every picture.

    `offset` sets the marks of other series apart from those the page's legend switches on and off.
    """

    names: Sequence[str]
    offset: int = 0

    def style(self, name: str) -> Style:
        """The style of series `name`."""
        return style(self.names.index(name))

    def mark(self, name: str, part: str) -> str:
        """The gid of a part of series `name`."""
        return series_mark(self.offset + self.names.index(name), part)


def curves(frame: pd.DataFrame, metric: Metric, series: Series, *, caption: str) -> Picture:
    """`metric` over steps for every algorithm, with error bands, each named at its right end.

    Logarithmic where the ends lie far apart, which the caption then says.
    """
    figure, axes = frames.picture_axes("Step", right=_LABEL_ROOM)
    grouped = frame.groupby(["step", "algorithm"], sort=True)[metric.column]
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
        look, mean, error = series.style(name), means[name].dropna(), errors[name]
        at = mean.index.to_numpy(dtype=float)
        middle, off = mean.to_numpy(dtype=float), error.loc[mean.index].to_numpy(dtype=float)
        if np.isfinite(off).all():
            low = np.maximum(middle - off, 0.0) if (middle >= 0).all() else middle - off
            band = axes.fill_between(at, low, middle + off, color=look.ink.stand_in, alpha=0.18, linewidth=0)
            band.set_gid(series.mark(name, "band"))
        (line,) = axes.plot(at, middle, color=look.ink.stand_in, linestyle=look.dash, linewidth=1.8)
        line.set_gid(series.mark(name, "curve"))
    axes.set_ylim(bottom=0.0 if (values >= 0).all() and axes.get_yscale() != "log" else None)
    _name_ends(axes, [End(name, name, float(means[name].dropna().iloc[-1])) for name in shown], series)
    key = f"{metric.column}-curves"
    hover = {
        "box": _box_of(axes),
        "unit": metric.unit,
        "end": float(axes.get_xlim()[1]),
        "start": float(axes.get_xlim()[0]),
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
    return Picture(key, f"{metric.title} over steps", caption, _svg(figure, key, metric.title), hover)


def trade_off(points: pd.DataFrame, cost: Metric, series: Series, *, caption: str, joined: bool = False) -> Picture:
    """Regret against communication at the end, error bars both ways; low and left is better.

    `points` has a row per point with `name`, and mean and error of both columns (`regret`, `regret_error`, ...).
    Points of one series are joined in their order if `joined`.
    """
    figure, axes = frames.picture_axes(cost.title, REGRET.title, right=0.955)
    axes.grid(True, axis="x", color=GRID.stand_in, linewidth=0.8)
    frames.natural_axis(axes.xaxis, points[cost.column].to_numpy(dtype=float), cost.unit)
    logarithmic = frames.natural_axis(axes.yaxis, points["regret"].to_numpy(dtype=float))
    for name, own in points.groupby("name", sort=False):
        mark = series.mark(str(name), "point")
        _error_bars(axes, own, cost.column, "regret", series.style(str(name)), mark, joined=joined)
    axes.margins(x=0.09, y=0.12)
    near_zero = 0 <= points["regret"].min() < 0.5 * points["regret"].max()
    if not logarithmic and near_zero:
        axes.set_ylim(bottom=0.0)
    _name_points(axes, points.groupby("name", sort=False).tail(1), cost.column, series)
    key = f"regret-against-{cost.column}"
    return Picture(
        key, f"Regret against {cost.title.lower()}", caption, _svg(figure, key, f"Regret against {cost.title}")
    )


def sweep(points: pd.DataFrame, column: str, metric: Metric, series: Series, *, caption: str) -> Picture:
    """`metric` at the end against the sweep column, with error bars; log-log where both are positive numbers.

    `points` is as for `trade_off`; rows of equal `line` belong together, which is what the line is called as well. They
    are joined along numbers, infinity among them; names have no order, so points stand side by side above each.
    """
    figure, axes = frames.picture_axes(column, right=_LABEL_ROOM)
    places = list(pd.unique(points[column]))
    numbers = pd.to_numeric(pd.Series(places), errors="coerce").to_numpy(dtype=float)
    ordered = not np.isnan(numbers).any()
    if not np.isfinite(numbers).all():
        frames.named_axis(axes, [str(place) for place in places])
        points = points.assign(at=_side_by_side(points, column, places, apart=0.0 if ordered else _APART))
    else:
        if (numbers > 0).all() or frames.worth_a_log(numbers):
            frames.log_axis(axes.xaxis, numbers)
        else:
            frames.number_axis(axes.xaxis)
        frames.tick_at(axes.xaxis, list(numbers))
        points = points.assign(at=pd.to_numeric(points[column]).astype(float))
    values = points[metric.column].to_numpy(dtype=float)
    if (values > 0).any() and not (values < 0).any():
        frames.log_axis(axes.yaxis, values, metric.unit)
    else:
        frames.number_axis(axes.yaxis, metric.unit)
    ends = []
    for line, rows in points.groupby("line", sort=False):
        name = str(rows["name"].iloc[0])
        rows = rows.sort_values("at")
        _error_bars(axes, rows, "at", metric.column, series.style(name), series.mark(name, "point"), joined=ordered)
        ends.append(End(name, str(line), float(rows[metric.column].iloc[-1])))
    _name_ends(axes, ends, series)
    key = f"{metric.column}-by-{column}"
    return Picture(key, f"{metric.title} by {column}", caption, _svg(figure, key, f"{metric.title} by {column}"))


def _side_by_side(points: pd.DataFrame, column: str, places: Sequence[Any], apart: float) -> list[float]:
    """Where each point stands: at the place of its name, the lines in their order and, if there is room, `apart`."""
    lines = list(pd.unique(points["line"]))
    apart = min(apart, 0.8 / len(lines))
    middle = (len(lines) - 1) / 2
    return [
        places.index(place) + apart * (lines.index(line) - middle)
        for place, line in zip(points[column], points["line"], strict=True)
    ]


def _error_bars(axes: Axes, points: pd.DataFrame, x: str, y: str, look: Style, gid: str, *, joined: bool) -> None:
    drawn = axes.errorbar(
        points[x].to_numpy(dtype=float),
        points[y].to_numpy(dtype=float),
        xerr=_bar(points, x),
        yerr=_bar(points, y),
        color=look.ink.stand_in,
        marker=look.marker,
        markersize=9,
        markeredgecolor=SURFACE.stand_in,
        markeredgewidth=0.8,
        linestyle=look.dash if joined else "none",
        linewidth=1.6,
        elinewidth=1.5,
        capsize=3,
    )
    for artist in drawn.get_children():
        artist.set_gid(gid)


def _bar(points: pd.DataFrame, column: str) -> FloatArray | None:
    """(2, m) lengths of the error bars; the lower end stops above zero, where a logarithm still has it."""
    if f"{column}_error" not in points:
        return None
    value = points[column].to_numpy(dtype=float)
    error = np.nan_to_num(points[f"{column}_error"].to_numpy(dtype=float))
    below = np.where(value > 0, np.minimum(error, 0.999 * np.abs(value)), error)
    return np.stack([below, error])


@dataclass(frozen=True, slots=True)
class End:
    """The last point of a line: whose series it belongs to, what it is called, and its value."""

    name: str
    text: str
    value: float


def _name_ends(axes: Axes, ends: Sequence[End], series: Series) -> None:
    """Every line's name right of its last point, pulled apart where they would touch; none if they do not all fit."""
    right = axes.get_xlim()[1]
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((right, end.value))[1]) for end in ends]
    gap = 1.25 * frames.FONT / (axes.get_position().height * frames.HEIGHT)
    if gap * len(ends) > 1.1:
        return
    for end, height, place in zip(ends, heights, spread(heights, gap), strict=True):
        (leader,) = axes.plot(
            [1.0, 1.02, 1.035],
            [height, place, place],
            color=series.style(end.name).ink.stand_in,
            linewidth=1.2,
            transform=axes.transAxes,
            clip_on=False,
        )
        text = axes.text(
            1.045,
            place,
            _short(end.text),
            va="center",
            fontsize=frames.FONT - 0.5,
            color=TEXT.stand_in,
            transform=axes.transAxes,
            parse_math=False,
        )
        for artist in (leader, text):
            artist.set_gid(series.mark(end.name, "label"))


def _name_points(axes: Axes, points: pd.DataFrame, x: str, series: Series) -> None:
    """Every point's name beside it."""
    axes.autoscale_view()  # limits are lazy, and places depend on them
    box = axes.get_position()
    size = np.array([box.width * frames.WIDTH, box.height * frames.HEIGHT])
    to_axes = axes.transData + axes.transAxes.inverted()
    marks = to_axes.transform(points[[x, "regret"]].to_numpy(dtype=float)) * size
    names = [str(name) for name in points["name"]]
    widths = [len(_short(name)) * frames.LETTER * frames.FONT for name in names]
    places = beside(marks, widths, 1.15 * frames.FONT, (size[0] + 18, size[1]))
    for name, (_, point), place in zip(names, points.iterrows(), places, strict=True):
        text = axes.annotate(
            _short(name),
            (float(point[x]), float(point["regret"])),
            xytext=(place.dx, place.dy),
            textcoords="offset points",
            ha=place.align,
            va="center",
            fontsize=frames.FONT - 0.5,
            color=TEXT.stand_in,
            parse_math=False,
        )
        text.set_gid(series.mark(name, "label"))


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_LETTERS else name[: _LABEL_LETTERS - 1] + "…"


def _svg(figure: Figure, key: str, title: str) -> Markup:
    return inline_svg(figure, "plot-" + "".join(c if c.isalnum() else "-" for c in key), title)


def _box_of(axes: Axes) -> list[float]:
    """Left, top, right, bottom of the axes as shares of the picture, y downwards as in SVG."""
    box = axes.get_position()
    return [round(float(edge), 4) for edge in (box.x0, 1 - box.y1, box.x1, 1 - box.y0)]


def _compact(values: pd.Series[Any]) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.to_numpy(dtype=float)]
