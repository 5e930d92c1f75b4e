"""Labels: short enough, apart from each other, and struck by nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.report.labels import Box, LabelPlace, beside, shortened, spread


def box_of(mark: np.ndarray, place: LabelPlace, width: float, height: float) -> Box:
    left = mark[0] + place.dx - {"left": 0, "center": width / 2, "right": width}[place.align]
    return left, mark[1] + place.dy - height / 2, left + width, mark[1] + place.dy + height / 2


def apart(one: Box, other: Box) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize(
    ("names", "letters", "expected"),
    [
        (["short"], 10, ["short"]),
        (["exactly-10"], 10, ["exactly-10"]),
        (["private-schedule-0.1", "private-schedule-1"], 12, ["priva…le-0.1", "priva…dule-1"]),
        (["x-1-the-very-same-end", "x-2-the-very-same-end"], 12, ["x-1-t…me-end", "x-2-t…me-end"]),
        (
            ["the-same-beginning-1-end-of-it", "the-same-beginning-2-end-of-it"],
            14,
            ["th…1-end-of-it", "th…2-end-of-it"],
        ),
    ],
)
def test_the_middle_is_cut_out(names: list[str], letters: int, expected: list[str]) -> None:
    assert list(shortened(names, letters).values()) == expected


@given(st.lists(st.text(alphabet="ab-", max_size=30), unique=True, max_size=6), st.integers(4, 20))
def test_cutting_keeps_to_the_room_and_tells_apart_what_it_can(names: list[str], letters: int) -> None:
    cut = shortened(names, letters)
    assert list(cut) == names
    assert all(len(short) <= letters for short in cut.values())
    assert all(short == name for name, short in cut.items() if len(name) <= letters)
    if len({(name[: letters - 1], len(name) > letters) for name in names}) == len(names):
        assert len(set(cut.values())) == len(names)


def test_labels_are_spread_in_order_and_stay_inside() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        wanted = rng.random(rng.integers(1, 10)).round(2).tolist()
        placed = spread(wanted, 0.1)
        assert sorted(range(len(wanted)), key=lambda i: wanted[i]) == sorted(
            range(len(wanted)), key=lambda i: placed[i]
        )
        assert min(np.diff(sorted(placed)), default=1) >= 0.1 - 1e-9
        assert min(placed) >= -1e-9
        assert max(placed) <= 1 + 1e-9


def test_labels_of_neighbouring_points_do_not_overlap() -> None:
    marks = np.array([[100.0, 50.0], [108.0, 50.0], [104.0, 55.0]])
    places = beside(marks, [60, 60, 60], 14, (300, 200))
    boxes = [box_of(mark, place, 60, 14) for mark, place in zip(marks, places, strict=True)]
    assert all(apart(one, other) for at, one in enumerate(boxes) for other in boxes[:at])


def test_labels_make_way_for_error_bars() -> None:
    """A point whose bars reach far to all sides: beside it, above or below, its label would be struck through."""
    marks = np.array([[150.0, 100.0]])
    bars = [(90.0, 97.0, 210.0, 103.0), (147.0, 40.0, 153.0, 160.0)]
    assert beside(marks, [60], 14, (300, 200)) == [LabelPlace(8, 0, "left")]
    [place] = beside(marks, [60], 14, (300, 200), bars)
    assert all(apart(box_of(marks[0], place, 60, 14), bar) for bar in bars)
