"""Names in a plot: at the ends of lines and beside points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedbandits.contract.arrays import FloatArray
from fedbandits.report import axes as frames
from fedbandits.report.labels import Box, beside, shortened, spread
from fedbandits.report.palette import TEXT, Style
from fedbandits.report.plots.error_bars import bars
from fedbandits.report.plots.series import Series
from fedbandits.report.ticks import LETTER

LABEL_ROOM = 0.7
"""Where the axes end when lines are named at their right end."""
_LETTERS = 20
_SIZE = frames.FONT - 0.5
_THICK = 3.0
"""Points to either side of a bar where a label would touch it."""


@dataclass(frozen=True, slots=True)
class NamedEnd:
    """The last point of a line: whose series it belongs to, what it is called, how it is drawn, and its value."""

    name: str
    text: str
    look: Style
    value: float


def name_ends(axes: Axes, ends: Sequence[NamedEnd], series: Series) -> Mapping[str, str]:
    """Every line's name right of its last point, pulled apart where they would touch; none if they do not all fit.

    Returns what is written for each name.
    """
    right = axes.get_xlim()[1]
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((right, end.value))[1]) for end in ends]
    gap = 1.25 * frames.FONT / (axes.get_position().height * frames.HEIGHT)
    if gap * len(ends) > 1.1:
        return {}
    written = shortened((end.text for end in ends), _LETTERS)
    for end, height, place in zip(ends, heights, spread(heights, gap), strict=True):
        (leader,) = axes.plot(
            [1.0, 1.02, 1.035],
            [height, place, place],
            color=end.look.ink.stand_in,
            linewidth=1.2,
            transform=axes.transAxes,
            clip_on=False,
        )
        text = axes.text(
            1.045,
            place,
            written[end.text],
            va="center",
            fontsize=_SIZE,
            color=TEXT.stand_in,
            transform=axes.transAxes,
            parse_math=False,
        )
        for artist in (leader, text):
            artist.set_gid(series.mark(end.name, "label"))
    return written


def name_points(axes: Axes, points: pd.DataFrame, named: pd.DataFrame, x: str, series: Series) -> Mapping[str, str]:
    """The name of each of the points `named` beside it, where no mark or error bar of `points` is.

    Returns what is written for each name.
    """
    axes.autoscale_view()  # limits are lazy, and places depend on them
    box = axes.get_position()
    size = np.array([box.width * frames.WIDTH, box.height * frames.HEIGHT])
    names = [str(name) for name in named["name"]]
    written = shortened(names, _LETTERS)
    widths = [len(written[name]) * LETTER * _SIZE for name in names]
    places = beside(
        _on_paper(axes, named[[x, "regret"]].to_numpy(dtype=float), size),
        widths,
        1.15 * frames.FONT,
        (size[0] + 18, size[1]),
        _strokes(axes, points, x, size),
    )
    for name, (_, point), place in zip(names, named.iterrows(), places, strict=True):
        text = axes.annotate(
            written[name],
            (float(point[x]), float(point["regret"])),
            xytext=(place.dx, place.dy),
            textcoords="offset points",
            ha=place.align,
            va="center",
            fontsize=_SIZE,
            color=TEXT.stand_in,
            parse_math=False,
        )
        text.set_gid(series.mark(name, "label"))
    return written


def _on_paper(axes: Axes, corners: FloatArray, size: FloatArray) -> FloatArray:
    """Data coordinates (m, 2) in points from the lower left corner of the axes."""
    return np.asarray((axes.transData + axes.transAxes.inverted()).transform(corners) * size)


def _strokes(axes: Axes, points: pd.DataFrame, x: str, size: FloatArray) -> list[Box]:
    """The error bars of all points as thin boxes, as far as they are in sight."""
    found: list[Box] = []
    middle = points[[x, "regret"]].to_numpy(dtype=float)
    for along, column in enumerate((x, "regret")):
        lengths = bars(points, column)
        if lengths is None:
            continue
        ends = []
        for sign, length in zip((-1, 1), lengths, strict=True):
            corner = middle.copy()
            corner[:, along] += sign * length
            ends.append(np.clip(_on_paper(axes, corner, size), 0, size))
        for low, high in zip(*ends, strict=True):
            found.append((low[0] - _THICK, low[1] - _THICK, high[0] + _THICK, high[1] + _THICK))
    return found
