"""Points with error bars."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedbandits.contract.arrays import FloatArray
from fedbandits.report.palette import SURFACE, Style


def draw(axes: Axes, points: pd.DataFrame, x: str, y: str, look: Style, gid: str, *, joined: bool) -> None:
    """Marks at the columns `x` and `y` of `points`, with bars where `x_error` and `y_error` are."""
    drawn = axes.errorbar(
        points[x].to_numpy(dtype=float),
        points[y].to_numpy(dtype=float),
        xerr=bars(points, x),
        yerr=bars(points, y),
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


def bars(points: pd.DataFrame, column: str) -> FloatArray | None:
    """(2, m) lengths of the error bars; the lower end stops above zero, where a logarithm still has it."""
    if f"{column}_error" not in points:
        return None
    value, error = points[column].to_numpy(dtype=float), errors(points, column)
    below = np.where(value > 0, np.minimum(error, 0.999 * np.abs(value)), error)
    return np.stack([below, error])


def errors(points: pd.DataFrame, column: str) -> FloatArray:
    """(m,) the errors of a column; 0 where there is none."""
    if f"{column}_error" not in points:
        return np.zeros(len(points))
    return np.asarray(np.nan_to_num(points[f"{column}_error"].to_numpy(dtype=float)))
