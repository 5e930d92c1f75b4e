"""Axes: ticks that can be told apart, whatever the values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from fedbandits.report import axes as frames


def drawn(axis: Axis) -> list[tuple[str, Bbox]]:
    """The labels in sight as they are drawn, and where."""
    figure = axis.axes.get_figure()
    FigureCanvasAgg(figure).draw()  # type: ignore[arg-type]
    low, high = sorted(axis.get_view_interval())
    ticks: list[tuple[float, Text]] = list(zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True))
    return [(label.get_text(), label.get_window_extent()) for at, label in ticks if low <= at <= high]


def check(axis: Axis, least: int = 2) -> list[str]:
    """No two labels touch or read the same, and there are at least so many."""
    found = drawn(axis)
    names = [name for name, _ in found]
    assert least <= len(names) <= 12
    assert len(set(names)) == len(names)
    for (_, one), (_, other) in itertools.combinations(found, 2):
        assert not one.overlaps(other), names
    return names


VALUES = {
    "near zero": [0.0, 4.8e6, 5.4e6],
    "far from zero": [0.0, 1.0, 1e5],
    "half a decade": [4.8e6, 5.4e6],
    "a hair apart": [1_000_001.0, 1_000_003.0],
    "one decade": [1.0, 9.0],
    "two decades": [13_900.0, 2_770_000.0],
    "many decades": [1e-7, 1e12],
    "zero and many decades": [0.0, 1e-3, 1e12],
    "equal": [5.0, 5.0],
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("side", ["x", "y"])
@pytest.mark.parametrize("covered", [False, True])
def test_ticks_of_logarithms_never_touch(values: list[float], side: str, covered: bool) -> None:
    _, axes = frames.picture_axes("x")
    axis = axes.xaxis if side == "x" else axes.yaxis
    axes.plot(values, values)
    frames.log_axis(axis, np.array(values), "B")
    if covered:
        frames.cover(axis, np.array(values), np.array(values) / 3, 0.05)
    check(axis, least=1 if values[0] == values[1] else 2)


@pytest.mark.parametrize("values", [[1_000_001.0, 1_000_003.0], [-1e9, 1e9], [0.0, 1e-9], [0, 7]])
@pytest.mark.parametrize("side", ["x", "y"])
def test_ticks_of_numbers_never_touch(values: list[float], side: str) -> None:
    _, axes = frames.picture_axes("x", right=0.5)
    axes.plot(values, values)
    axis = axes.xaxis if side == "x" else axes.yaxis
    frames.number_axis(axis, "B")
    check(axis)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_ticks_at_given_places_are_left_out_where_crowded(logarithmic: bool) -> None:
    _, axes = frames.picture_axes("x", right=0.745)
    places = np.arange(1.0, 60.0)
    axes.plot(places, places)
    if logarithmic:
        frames.log_axis(axes.xaxis, places)
    else:
        frames.number_axis(axes.xaxis)
    frames.tick_at(axes.xaxis, list(places))
    found = drawn(axes.xaxis)
    assert {name for name, _ in found} <= {f"{place:g}" for place in places}
    assert found[0][0] == "1"
    for (_, one), (_, other) in itertools.pairwise(found):
        assert one.x1 <= other.x0
    frames.tick_at(axes.xaxis, [1.0, 20.0, 50.0])
    assert [name for name, _ in drawn(axes.xaxis)] == ["1", "20", "50"]


def test_a_bar_down_to_zero_does_not_stretch_a_logarithm() -> None:
    _, axes = frames.picture_axes("x")
    values = np.array([100.0, 300.0])
    axes.errorbar([1, 2], values, yerr=[[99.9, 10.0], [400.0, 10.0]])
    frames.log_axis(axes.yaxis, values)
    frames.cover(axes.yaxis, values, np.array([400.0, 10.0]), 0.05)
    low, high = axes.get_ylim()
    assert 15 < low < 25
    assert 500 < high < 700
    check(axes.yaxis)


@pytest.mark.parametrize("values", [[100.0, 300.0], [0.0, 4000.0, 25_000.0], [0.0, 1.0, 1e9]])
def test_marks_keep_away_from_the_edges(values: list[float]) -> None:
    """By at least the radius of a mark."""
    _, axes = frames.picture_axes("x")
    axes.plot(values, values)
    frames.log_axis(axes.yaxis, np.array(values))
    frames.cover(axes.yaxis, np.array(values), np.zeros(len(values)), 0.05)
    heights = axes.transData.transform([(1.0, value) for value in values])[:, 1]
    bottom, top = axes.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    assert (heights.min() - bottom) * 72 / axes.figure.dpi > 4.5
    assert (top - heights.max()) * 72 / axes.figure.dpi > 4.5


NETWORKS = ["erdos-renyi", "barabasi-albert", "watts-strogatz", "ring", "line", "star", "complete", "random-tree"]


@pytest.mark.parametrize(
    ("names", "slanted"),
    [
        (["ring", "star"], False),
        (["erdos-renyi", "barabasi-albert", "ring"], False),
        (NETWORKS, True),
        (["a" * 60, "b"], True),
        ([f"{name}-{at}" for name in NETWORKS for at in range(3)], True),
    ],
    ids=["two", "three", "eight", "long", "24"],
)
def test_names_do_not_run_into_each_other_or_out_of_the_picture(names: list[str], slanted: bool) -> None:
    figure, axes = frames.picture_axes("network", right=0.745)
    written = frames.named_axis(axes, names)
    FigureCanvasAgg(figure).draw()
    labels = axes.get_xticklabels()
    assert [label.get_text() for label in labels] == [written[name] for name in names]
    assert all((label.get_rotation() > 0) == slanted for label in labels)
    check_apart(axes, labels)
    boxes = [label.get_window_extent() for label in labels]
    assert min(box.y0 for box in boxes) >= axes.xaxis.label.get_window_extent().y0
    assert axes.xaxis.label.get_window_extent().y0 >= 0
    assert axes.get_position().height > 0.4


def test_more_names_than_have_room_are_written_in_part() -> None:
    figure, axes = frames.picture_axes("network", right=0.745)
    frames.named_axis(axes, [f"network-{at}" for at in range(100)])
    FigureCanvasAgg(figure).draw()
    labels = axes.get_xticklabels()
    assert 20 <= len(labels) < 100
    check_apart(axes, labels)


def check_apart(axes: Axes, labels: list[Text]) -> None:
    """Neighbours keep a line's height from each other, measured across the direction they are written in."""
    places = axes.transData.transform([(at, 0.0) for at in axes.get_xticks()])[:, 0] * 72 / axes.figure.dpi
    for (here, label), (there, other) in itertools.pairwise(zip(places, labels, strict=True)):
        if label.get_rotation() == 0:
            assert label.get_window_extent().x1 <= other.get_window_extent().x0
        else:
            across = (there - here) * np.sin(np.radians(label.get_rotation()))
            assert across >= 1.1 * label.get_fontsize()
