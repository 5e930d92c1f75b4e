"""Lines on two logarithmic axes, named at their ends: the pictures of pages that quote results (`measured`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from fedbandits.report.palette import GRID, MUTED, TEXT, style
from fedbandits.report.readable import human

_APART = 0.058
"""Of the height, between names."""
_LEVEL = (0, (1.3, 1.7))
"""How what does not depend on x is drawn."""
_WIDE = 300
"""Ratio from which on powers of ten are ticks enough."""


class Point(NamedTuple):
    """Where, and mean and standard error there; `x` is no number for what does not depend on it."""

    x: float
    mean: float
    error: float


class Line(NamedTuple):
    """A name and its points, from left to right."""

    name: str
    points: Sequence[Point]


def drawing(lines: Sequence[Line], *, title: str, xlabel: str, values: bool = True) -> Figure:
    """All `lines` with bars of one standard error; a level for a line that does not depend on x. With `values` the
    places that occur are ticks of x, else powers of ten.
    """
    figure = Figure(figsize=(7.2, 4.2), dpi=200, facecolor="white")
    axes = figure.add_axes((0.09, 0.13, 0.63, 0.78))
    ends = []
    for at, line in enumerate(lines):
        look = style(at, series=len(lines))
        ends.append((line.points[-1].mean, line.name, look.ink.light))
        if math.isnan(line.points[0].x):
            axes.axhline(line.points[0].mean, color=look.ink.light, linestyle=_LEVEL, linewidth=1.6)
            continue
        xs, means, errors = zip(*line.points, strict=True)
        errors = tuple(0.0 if math.isnan(error) else error for error in errors)
        axes.errorbar(xs, means, errors, color=look.ink.light, linewidth=1.6, capsize=0)[0].set(
            linestyle=look.dash, marker=look.marker, markersize=5
        )
    points = [point for line in lines for point in line.points]
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({point.x for point in points if not math.isnan(point.x)})
    if values:
        axes.set_xticks(ticks, [human(tick) for tick in ticks])
    else:
        axes.xaxis.set_major_formatter(lambda tick, _: human(tick))
    axes.minorticks_off()
    wide = max(point.mean for point in points) > _WIDE * min(point.mean for point in points)
    axes.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda tick, _: human(tick))
    axes.set_xlabel(xlabel, color=TEXT.light)
    axes.set_title(title, loc="left", fontsize=11, color=TEXT.light)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED.light)
    axes.tick_params(colors=MUTED.light, length=0)
    axes.grid(axis="y", color=GRID.light)
    axes.set_axisbelow(True)
    _name(axes, ends)
    return figure


def _name(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names beside the ends of their lines, as near as can be without lying on each other."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    ends = sorted(ends)
    places = spread([(math.log(level) - low) / (high - low) for level, _, _ in ends], _APART)
    for (_, name, colour), place in zip(ends, places, strict=True):
        axes.annotate(name, (1.02, place), xycoords="axes fraction", va="center", fontsize=9.5, color=colour)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """Numbers that rise by at least `apart`, nearest to `places`, which rise, in squared distance.

    Pooling of neighbours that violate it, as in isotonic regression.

    >>> [round(place, 3) for place in spread([0.0, 0.1, 0.1, 0.9], 0.1)]
    [-0.033, 0.067, 0.167, 0.9]
    """
    pools: list[tuple[float, int]] = []
    for at, place in enumerate(places):
        mean, size = place - at * apart, 1
        while pools and pools[-1][0] > mean:
            before, count = pools.pop()
            mean, size = (mean * size + before * count) / (size + count), size + count
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [mean + at * apart for at, mean in enumerate(flat)]
