"""Axes the way every picture of a report has them: quiet frame, readable numbers, logarithms that survive zeros."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fedbandits.contract.arrays import FloatArray
from fedbandits.report.labels import shortened
from fedbandits.report.palette import GRID, MUTED, TEXT
from fedbandits.report.ticks import (
    LETTER,
    Fitting,
    Readable,
    places,
    round_numbers,
    round_ratios,
    round_ratios_and_zero,
)

WIDTH, HEIGHT = 480.0, 300.0
"""Points; the page scales a picture to its column."""
FONT = 12.0
_SLANT = 35.0
"""Degrees, at least."""
_SLANTED = 24
"""Letters of the longest name on a slant."""
_SMALLEST = 7.0
"""Font size below which names are left out rather than made smaller."""
_WORTH_A_LOG = 8.0
_LONGEST_BAR = 4.0
"""A bar may lower the limit of a logarithmic axis by this factor below its mean, and is cut off there."""


def picture_axes(xlabel: str, ylabel: str = "", *, right: float = 0.97) -> tuple[Figure, Axes]:
    """A transparent figure with one axes; `right` is where the axes end, the rest is room for labels.

    The y label stands above the axis, horizontally, where it is easiest to read; not needed where
    the title says it.
    """
    figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), facecolor="none")
    axes = figure.add_axes((0.12, 0.16, right - 0.12, 0.74 if ylabel else 0.8), facecolor="none")
    quieten(axes)
    axes.set_xlabel(xlabel, color=TEXT.stand_in, fontsize=FONT, labelpad=5, parse_math=False)
    axes.text(
        -0.1, 1.045, ylabel, color=TEXT.stand_in, fontsize=FONT, transform=axes.transAxes, parse_math=False, ha="left"
    )
    return figure, axes


def quieten(axes: Axes) -> None:
    """The look of all plots: a line below, faint lines across, nothing else that draws the eye."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED.stand_in)
    axes.tick_params(colors=MUTED.stand_in, labelsize=FONT - 1, length=0, pad=5)
    axes.grid(True, axis="y", color=GRID.stand_in, linewidth=0.8)
    axes.set_axisbelow(True)


def number_axis(axis: Axis, unit: str = "") -> None:
    """Linear, few ticks, prefixes instead of powers."""
    axis.set_major_locator(Fitting(round_numbers))
    axis.set_major_formatter(Readable(unit))
    axis.set_minor_locator(NullLocator())


def log_axis(axis: Axis, values: FloatArray, unit: str = "") -> None:
    """Logarithmic over `values`; zeros, where there are any, sit on a linear stretch below the lowest decade."""
    positive = values[np.isfinite(values) & (values > 0)]
    lowest = 10.0 ** int(np.floor(np.log10(positive.min())))
    zeros = bool((values == 0).any())
    scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    if zeros:
        scale("symlog", linthresh=lowest, linscale=0.5)
    else:
        scale("log")
    axis.set_major_locator(Fitting(round_ratios_and_zero(lowest) if zeros else round_ratios))
    axis.set_major_formatter(Readable(unit))
    axis.set_minor_locator(NullLocator())


def cover(axis: Axis, values: FloatArray, errors: FloatArray, margin: float) -> None:
    """Limits of a logarithmic axis such that `values` and their error bars are in sight, with `margin` on either side.

    A bar that comes close to zero, which a logarithm shows as endless, does not stretch the axis.
    """
    positive = np.isfinite(values) & (values > 0)
    lows = np.maximum(values - errors, values / _LONGEST_BAR)[positive]
    low, high = float(lows.min()), float((values + errors)[positive].max())
    if (values == 0).any():
        lowest = 10.0 ** np.floor(np.log10(values[positive].min()))
        room = (10 * high / lowest) ** margin
        low = -0.2 * lowest * room
    else:
        room = max((high / low) ** margin, 1.05)
        low /= room
    limit = axis.axes.set_xlim if axis is axis.axes.xaxis else axis.axes.set_ylim
    limit(low, high * room)


def worth_a_log(values: FloatArray) -> bool:
    """Whether `values` span so much that a linear scale would flatten the smaller ones."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive) and not (values < 0).any() and positive.max() / positive.min() >= _WORTH_A_LOG)


def natural_axis(axis: Axis, values: FloatArray, unit: str = "") -> bool:
    """Logarithmic where `values` span a factor of 8 or more, else linear from zero; True if logarithmic."""
    logarithmic = worth_a_log(values)
    if logarithmic:
        log_axis(axis, values, unit)
    else:
        number_axis(axis, unit)
    return logarithmic


def tick_at(axis: Axis, values: Sequence[float]) -> None:
    """Ticks at `values` and nowhere else; where they are crowded, only those that have room."""
    axis.set_major_locator(places(values))


def named_axis(axes: Axes, names: Sequence[str]) -> Mapping[str, str]:
    """A place on the x axis for each name, in order, lines between them; returns what is written for each name.

    Names that do not fit are written aslant, steeper the more there are, then smaller; if not even that gives them
    room, only some of them.
    """
    box = axes.get_position()
    room = box.width * WIDTH / len(names)
    letters = 0.95 * room / (LETTER * FONT)
    broken = ["\n".join(textwrap.wrap(name, max(1, int(letters)), break_long_words=False)) for name in names]
    lines = max(name.count("\n") + 1 for name in broken)
    at = range(len(names))
    if lines <= 2 and max(len(line) for name in broken for line in name.split("\n")) <= letters:
        written = dict(zip(names, broken, strict=True))
        depth = 1.25 * FONT * lines
        axes.set_xticks(at, broken, parse_math=False)
    else:
        written = shortened(names, _SLANTED)
        size = float(np.clip(room / 1.15, _SMALLEST, FONT - 1))
        every = int(np.ceil(1.15 * size / room))
        slant = max(_SLANT, float(np.degrees(np.arcsin(min(1.0, 1.15 * size / (room * every))))))
        depth = FONT + np.sin(np.radians(slant)) * max(map(len, written.values())) * LETTER * size
        axes.set_xticks(
            at[::every],
            [written[name] for name in names[::every]],
            rotation=slant,
            ha="right",
            va="center" if slant > 80 else "top",
            rotation_mode="anchor",
            fontsize=size,
            parse_math=False,
        )
    bottom = max(box.y0, (depth + 2.4 * FONT) / HEIGHT)
    axes.set_position((box.x0, bottom, box.width, box.y1 - bottom))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.5, len(names) - 0.5)
    for between in range(1, len(names)):
        axes.axvline(between - 0.5, color=GRID.stand_in, linewidth=0.8, zorder=0)
    return written
