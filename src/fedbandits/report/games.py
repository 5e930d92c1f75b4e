"""Games as pictures: what episodes returned beside the Pareto front, and the ways of agents on a board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.portrait import BOARD, FRONT, PATHS, RETURNS, Portrait
from fedbandits.report.axes import FONT, number_axis, quieten
from fedbandits.report.palette import GRID, MUTED, SERIES, TEXT
from fedbandits.report.portraits import Drawn, title_of
from fedbandits.report.section import Section, render
from fedbandits.report.svg import inline_svg

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_SIDE = 320.0
"""Points."""
_APART = 0.09
"""How far the ways of two agents keep from each other, in cells."""


def games(results: Results) -> Section | None:
    """What there is to see of a game, for each algorithm under the first seed."""
    drawn = list(_drawn(results.portraits))
    return Section("games", "How they played", render("games.html", games=drawn)) if drawn else None


def _drawn(found: Sequence[Portrait]) -> Iterator[Drawn]:
    for at, (title, group) in enumerate(groupby(found, key=title_of)):
        arrays = next(group).arrays
        if FRONT in arrays and RETURNS in arrays:
            svg = front_picture(arrays[FRONT], arrays[RETURNS], f"front-{at}", f"Returns of {title}")
            told = f"{len(arrays[RETURNS])} last episodes (dots, the darker the more often) and the Pareto front (line)"
            yield Drawn(title, svg, [told])
        if BOARD in arrays and PATHS in arrays:
            svg = paths_picture(arrays[BOARD], arrays[PATHS], f"paths-{at}", f"Ways of {title}")
            cells = len(np.unique(arrays[PATHS]))
            yield Drawn(title, svg, [f"last episode: {cells} of {int(np.prod(arrays[BOARD]))} cells visited"])


def front_picture(front: FloatArray, returns: FloatArray, key: str, title: str) -> Markup:
    """`returns` (m, 2) beside the Pareto front (k, 2), which is a staircase: what lies below it is within reach."""
    figure = Figure(figsize=(_SIDE / 72, _SIDE / 72), facecolor="none")
    axes = figure.add_axes((0.15, 0.16, 0.81, 0.72), facecolor="none")
    quieten(axes)
    number_axis(axes.xaxis)
    number_axis(axes.yaxis)
    order = np.argsort(front[:, 0])
    axes.step(front[order, 0], front[order, 1], where="pre", color=MUTED.stand_in, linewidth=1.2)
    axes.plot(front[:, 0], front[:, 1], linestyle="none", marker="s", markersize=4, color=MUTED.stand_in)
    axes.plot(
        returns[:, 0], returns[:, 1], linestyle="none", marker="o", markersize=7, color=SERIES[0].stand_in, alpha=0.25
    )
    axes.set_xlabel("return of agent 0", color=TEXT.stand_in, fontsize=FONT, labelpad=5)
    axes.text(-0.1, 1.045, "Return of agent 1", color=TEXT.stand_in, fontsize=FONT, transform=axes.transAxes)
    return inline_svg(figure, key, title)


def paths_picture(board: IntArray, paths: IntArray, key: str, title: str) -> Markup:
    """The way of each agent, (n, m) cells of a `board` of (rows, columns), from a ring to a dot."""
    rows, columns = map(int, board)
    figure = Figure(figsize=(_SIDE / 72, _SIDE / 72 * rows / columns), facecolor="none")
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96), facecolor="none")
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_axis_off()
    for at in range(rows + 1):
        axes.plot([-0.5, columns - 0.5], [at - 0.5, at - 0.5], color=GRID.stand_in, linewidth=0.8)
    for at in range(columns + 1):
        axes.plot([at - 0.5, at - 0.5], [-0.5, rows - 0.5], color=GRID.stand_in, linewidth=0.8)
    for agent, way in enumerate(paths):
        aside = _APART * (agent - (len(paths) - 1) / 2)
        y, x = (np.array(part) + aside for part in np.divmod(way, columns))
        ink = SERIES[agent % len(SERIES)].stand_in
        axes.plot(x, y, color=ink, linewidth=1.6)
        axes.plot(x[:1], y[:1], marker="o", markersize=9, markerfacecolor="none", markeredgecolor=ink)
        axes.plot(x[-1:], y[-1:], marker="o", markersize=6, color=ink)
    return inline_svg(figure, key, title)
