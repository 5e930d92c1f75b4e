"""A network as a picture: agents coloured by what they know, or, where they are too many, how many know how much."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from scipy.spatial import KDTree

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.report.axes import FONT, number_axis, quieten
from fedbandits.report.palette import MUTED, SERIES, SURFACE, TEXT
from fedbandits.report.readable import human
from fedbandits.report.scale import Scale
from fedbandits.report.svg import inline_svg

LEADER = SERIES[1]
MOST_NODES = 600
"""More agents than that are not drawn one by one."""
MOST_LINKS = 2000
"""More links than that are drawn in part: an even choice among them."""
_SIDE = 320.0
"""Points."""
_MARGIN = 14.0
_SMALLEST, _LARGEST = 4.0, 15.0
"""Diameters of dots."""
_BARS = 4
"""Bars for each class of the scale."""


def network_picture(
    known: FloatArray, edges: IntArray, leaders: BoolArray, places: FloatArray, scale: Scale, key: str, title: str
) -> Markup:
    """Agents at `places` (n, 2) in the unit square, coloured by `known` (n,), those in `leaders` (n,) outlined.

    Of more than `MOST_LINKS` of the `edges` (E, 2) only some are drawn.
    """
    figure = Figure(figsize=(_SIDE / 72, _SIDE / 72), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1), facecolor="none")
    axes.set_xlim(0, _SIDE)
    axes.set_ylim(0, _SIDE)
    axes.set_axis_off()
    # tenths of a point keep the file small
    spots = np.round(_MARGIN + (_SIDE - 2 * _MARGIN) * places, 1)
    _links(axes, spots, _some(edges))
    size = _size(spots)
    found = scale.classes(known)
    for leading in (False, True):
        for index in range(len(scale)):
            own = spots[(found == index) & (leaders == leading)]
            axes.plot(
                own[:, 0],
                own[:, 1],
                linestyle="none",
                marker="o",
                markersize=size * (1.25 if leading else 1.0),
                color=scale.ink(index).stand_in,
                markeredgecolor=LEADER.stand_in if leading else MUTED.stand_in,
                markeredgewidth=max(1.2, 0.18 * size) if leading else min(0.6, 0.07 * size),
            )
    return inline_svg(figure, key, title)


def knowledge_picture(known: FloatArray, scale: Scale, key: str, title: str) -> Markup:
    """How many agents know how much: bars in the colours of the classes of `scale`, in percent."""
    figure = Figure(figsize=(_SIDE / 72, _SIDE / 72), facecolor="none")
    axes = figure.add_axes((0.13, 0.15, 0.84, 0.74), facecolor="none")
    quieten(axes)
    number_axis(axes.yaxis)
    ends = np.linspace(0, len(scale), _BARS * len(scale) + 1)
    # classes of equal width, whatever they span: positions are read off the edges between them
    at = np.interp(known, scale.edges, np.arange(len(scale.edges))) if len(set(scale.edges)) > 1 else 0 * known
    counts, _ = np.histogram(at, ends)
    for index in range(len(scale)):
        own = slice(_BARS * index, _BARS * (index + 1))
        axes.bar(
            ends[:-1][own],
            counts[own],
            width=1 / _BARS,
            align="edge",
            color=scale.ink(index).stand_in,
            edgecolor=SURFACE.stand_in,
            linewidth=0.8,
        )
    axes.set_xlim(0, len(scale))
    axes.set_xticks(range(len(scale.edges)), [human(edge) for edge in scale.edges], parse_math=False)
    axes.set_xlabel("% of all samples known", color=TEXT.stand_in, fontsize=FONT, labelpad=5)
    axes.text(-0.1, 1.045, "Agents", color=TEXT.stand_in, fontsize=FONT, transform=axes.transAxes, ha="left")
    return inline_svg(figure, key, title)


def _size(spots: FloatArray) -> float:
    """The diameter of a dot: such that most do not touch their neighbours, within limits."""
    if len(spots) == 1:
        return _LARGEST
    nearest = np.asarray(KDTree(spots).query(spots, k=2)[0])[:, 1]
    return float(np.clip(0.9 * np.quantile(nearest, 0.3), _SMALLEST, min(_LARGEST, 150 / np.sqrt(len(spots)))))


def _some(edges: IntArray) -> IntArray:
    if len(edges) <= MOST_LINKS:
        return edges
    chosen = np.random.default_rng(0).choice(len(edges), MOST_LINKS, replace=False)
    return edges[np.sort(chosen)]


def _links(axes: Axes, spots: FloatArray, edges: IntArray) -> None:
    if not len(edges):
        return
    ends = spots[edges].reshape(-1, 2)
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(edges)))
    alpha = float(np.clip(8 / np.sqrt(len(edges)), 0.14, 0.6))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=MUTED.stand_in, linewidth=0.8, alpha=alpha))
