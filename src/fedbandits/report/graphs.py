"""A client graph as a picture: the adjacency matrix, clients of one true cluster side by side.

Cells are merged into few rectangles, so that a graph of hundreds of clients stays a small vector picture whose colours
follow the page's mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.report.palette import GRID, MUTED, SERIES, TEXT, Ink
from fedbandits.report.svg import inline_svg

RIGHT, WRONG, LACKING, OUTLINE = SERIES[0], SERIES[1], MUTED, TEXT
"""Pairs joined rightly (or, where no truth is known, at all), joined wrongly, separated wrongly; true clusters."""
_SIDE = 240.0
"""Points."""
_CLOSED = (Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY)


def client_graph(graph: BoolArray, truth: IntArray | None, key: str, title: str) -> Markup:
    """`graph` (n, n) with clients sorted by `truth` (n,), largest cluster first, whose blocks are outlined.

    Without a truth clients are sorted so that those with similar neighbours stand together.
    """
    order = by_cluster(truth) if truth is not None else by_neighbours(graph)
    shown = graph[np.ix_(order, order)]
    np.fill_diagonal(shown, True)
    figure = Figure(figsize=(_SIDE / 72, _SIDE / 72), facecolor="none")
    axes = figure.add_axes((0.015, 0.015, 0.97, 0.97), facecolor="none")
    axes.set_xlim(0, len(order))
    axes.set_ylim(len(order), 0)
    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_color(GRID.stand_in)
    if truth is None:
        _fill(axes, shown, RIGHT)
    else:
        sorted_truth = truth[order]
        alike = sorted_truth[:, None] == sorted_truth[None, :]
        _fill(axes, shown & alike, RIGHT)
        _fill(axes, shown & ~alike, WRONG)
        _fill(axes, ~shown & alike, LACKING, alpha=0.35)
        _outline(axes, sorted_truth)
    return inline_svg(figure, key, title)


def by_cluster(truth: IntArray) -> IntArray:
    """(n,) clients, those of a cluster together, larger clusters first."""
    sizes = np.bincount(truth)
    return np.lexsort((np.arange(len(truth)), truth, -sizes[truth]))


def by_neighbours(graph: BoolArray) -> IntArray:
    """(n,) clients in the order of a depth-first walk from the best connected one, nearest in neighbours first."""
    closed = graph | np.eye(len(graph), dtype=np.bool_)
    common = closed.astype(np.int64) @ closed.T
    degree = closed.sum(axis=1)
    similarity = common / (degree[:, None] + degree[None, :] - common)
    left = np.ones(len(graph), dtype=np.bool_)
    order: list[int] = []
    for _ in range(len(graph)):
        score = similarity[order[-1]] if order else degree
        order.append(int(np.where(left, score, -1).argmax()))
        left[order[-1]] = False
    return np.array(order, dtype=np.int64)


def rectangles(cells: BoolArray) -> Iterator[tuple[int, int, int, int]]:
    """Rectangles (top, bottom, left, right), the far ends exclusive, that cover exactly the cells that are True.

    >>> list(rectangles(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)))
    [(0, 2, 0, 2), (2, 3, 2, 3)]
    """
    open_since: dict[tuple[int, int], int] = {}
    for row, line in enumerate([*cells, np.zeros(cells.shape[1], dtype=np.bool_)]):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8)))
        runs = set(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        for run in [run for run in open_since if run not in runs]:
            yield open_since.pop(run), row, *run
        for run in sorted(runs - open_since.keys()):
            open_since[run] = row


def _fill(axes: Axes, cells: BoolArray, ink: Ink, alpha: float = 1.0) -> None:
    corners = [[(x, y), (v, y), (v, z), (x, z), (x, y)] for y, z, x, v in rectangles(cells)]
    if corners:
        path = Path(np.concatenate(corners), np.tile(_CLOSED, len(corners)))
        axes.add_patch(PathPatch(path, facecolor=ink.stand_in, edgecolor="none", alpha=alpha))


def _outline(axes: Axes, truth: IntArray) -> None:
    starts = [0, *(np.flatnonzero(np.diff(truth)) + 1).tolist(), len(truth)]
    for start, end in pairwise(starts):
        corners = [(start, start), (end, start), (end, end), (start, end), (start, start)]
        block = Path(np.array(corners, dtype=np.float64), _CLOSED)
        axes.add_patch(PathPatch(block, fill=False, edgecolor=OUTLINE.stand_in, linewidth=1.2, clip_on=False))
