"""Axes: ticks that can be told apart, whatever the values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fedbandits.report import axes as frames


@pytest.mark.parametrize(
    "values", [[0.0, 4.8e6, 5.4e6], [0.0, 1.0, 1e5], [4.8e6, 5.4e6], [1.0, 1e9]], ids=["near", "far", "no zero", "wide"]
)
def test_visible_ticks_stand_apart(values: list[float]) -> None:
    _, axes = frames.picture_axes("x")
    frames.log_axis(axes.yaxis, np.array(values))
    axes.plot(range(len(values)), values)
    low, high = axes.get_ylim()
    visible = [tick for tick in axes.yaxis.get_majorticklocs() if low <= tick <= high]
    heights = axes.transData.transform([(0.0, tick) for tick in sorted(visible)])[:, 1] * 72 / axes.figure.dpi
    assert len(visible) >= 2
    assert np.diff(heights).min() >= frames.FONT * 0.9


@pytest.mark.parametrize(
    ("names", "slanted"),
    [
        (["ring", "star"], False),
        (["erdos-renyi", "barabasi-albert", "ring"], False),
        (["erdos-renyi", "barabasi-albert", "watts-strogatz", "ring", "line", "star", "complete", "random-tree"], True),
        (["a" * 60, "b"], True),
    ],
)
def test_names_do_not_run_into_each_other_or_out_of_the_picture(names: list[str], slanted: bool) -> None:
    figure, axes = frames.picture_axes("network", right=0.745)
    frames.named_axis(axes, names)
    FigureCanvasAgg(figure).draw()
    labels = axes.get_xticklabels()
    assert all((label.get_rotation() > 0) == slanted for label in labels)
    boxes = [label.get_window_extent() for label in labels]
    if not slanted:
        assert all(one.x1 <= other.x0 for one, other in itertools.pairwise(boxes))
    assert min(box.y0 for box in boxes) >= axes.xaxis.label.get_window_extent().y0
    assert axes.xaxis.label.get_window_extent().y0 >= 0
    assert axes.get_position().height > 0.4
