"""Axes the way every picture of a report has them: quiet frame, readable numbers, logarithms that survive zeros."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedbandits.contract.arrays import FloatArray
from fedbandits.report.palette import GRID, MUTED, TEXT
from fedbandits.report.readable import human

WIDTH, HEIGHT = 480.0, 300.0
"""Points; the page scales a picture to its column."""
FONT = 12.0
LETTER = 0.52
"""Width of an average letter, in font sizes."""
_SLANT = 35.0
"""Degrees."""
_SLANTED = 24
"""Letters of the longest name on a slant."""
_WORTH_A_LOG = 8.0
_MOST_DECADES = 6
_FINER = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), tuple(np.arange(1.0, 10.0, 0.25)))


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
    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(_formatter(unit))
    axis.set_minor_locator(NullLocator())


def log_axis(axis: Axis, values: FloatArray, unit: str = "") -> None:
    """Logarithmic over `values`; zeros, where there are any, sit on a linear stretch below the lowest decade.

    Ticks are whole decades, thinned to a handful, or as many steps within them as it takes to have three in sight.
    """
    positive = values[np.isfinite(values) & (values > 0)]
    low = int(np.floor(np.log10(positive.min())))
    zeros = bool((values == 0).any())
    scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    if zeros:
        scale("symlog", linthresh=10.0**low, linscale=0.5)
    else:
        scale("log")
    # zeros bring whole decades below the values into sight, where steps fit for the values alone would crowd
    ticks = _log_ticks(float(positive.min()), float(positive.max()), _FINER[:2] if zeros else _FINER)
    axis.set_major_locator(FixedLocator([0.0, *ticks] if zeros else ticks))
    axis.set_major_formatter(_formatter(unit))
    axis.set_minor_locator(NullLocator())


def _log_ticks(least: float, most: float, finer: Sequence[Sequence[float]]) -> list[float]:
    low, high = int(np.floor(np.log10(least))), int(np.ceil(np.log10(most)))
    every = max(1, -(-(high - low) // _MOST_DECADES))
    ticks: list[float] = []
    for steps in finer:
        ticks = [step * 10.0**power for power in range(low, high + 1, every) for step in steps]
        if sum(least <= tick <= most for tick in ticks) >= 3:
            break
    return ticks


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


def tick_at(axis: Axis, places: Sequence[float]) -> None:
    """Ticks at `places` and nowhere else."""
    axis.set_major_locator(FixedLocator(places))


def named_axis(axes: Axes, names: Sequence[str]) -> None:
    """A place on the x axis for each name, in order, lines between them; names that do not fit are written aslant."""
    box = axes.get_position()
    letters = 0.95 * box.width * WIDTH / len(names) / (LETTER * FONT)
    broken = ["\n".join(textwrap.wrap(name, max(1, int(letters)), break_long_words=False)) for name in names]
    lines = max(name.count("\n") + 1 for name in broken)
    if lines <= 2 and max(len(line) for name in broken for line in name.split("\n")) <= letters:
        depth = 1.25 * FONT * lines
        axes.set_xticks(range(len(names)), broken, parse_math=False)
    else:
        short = [name if len(name) <= _SLANTED else name[: _SLANTED - 1] + "…" for name in names]
        depth = FONT + np.sin(np.radians(_SLANT)) * max(map(len, short)) * LETTER * FONT
        axes.set_xticks(
            range(len(names)), short, rotation=_SLANT, ha="right", va="top", rotation_mode="anchor", parse_math=False
        )
    bottom = max(box.y0, (depth + 2.4 * FONT) / HEIGHT)
    axes.set_position((box.x0, bottom, box.width, box.y1 - bottom))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.5, len(names) - 0.5)
    for between in range(1, len(names)):
        axes.axvline(between - 0.5, color=GRID.stand_in, linewidth=0.8, zorder=0)


def _formatter(unit: str) -> FuncFormatter:
    show: Callable[[float, int | None], str] = lambda value, _: human(value, unit)  # noqa: E731
    return FuncFormatter(show)
