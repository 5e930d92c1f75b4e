import math

import numpy as np
import pytest

from fedbandits.report.labels import beside, spread
from fedbandits.report.readable import exact, human, with_error


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "B", "0 B"),
        (999, "", "999"),
        (999.9, "", "1 k"),
        (1000, "", "1 k"),
        (1_250_000, "", "1.25 M"),
        (3.4e9, "B", "3.4 GB"),
        (2e21, "B", "2000 EB"),
        (-1500, "", "−1.5 k"),
        (math.inf, "", "∞"),
        (math.nan, "", "–"),
    ],
)
def test_human_numbers(value: float, unit: str, text: str) -> None:
    assert human(value, unit) == text


def test_exact_numbers_lose_nothing_before_the_point() -> None:
    assert exact(123_456_789.0) == "123,456,789"
    assert exact(123_456_789.25) == "123,456,789.25"


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [(1065.2, 20.1, "1065 ± 20"), (51.482, 0.62, "51.48 ± 0.62"), (5.0, 0.0, "5"), (2.0, math.nan, "2")],
)
def test_mean_with_error(mean: float, error: float, text: str) -> None:
    assert with_error(mean, error) == text


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
    boxes = []
    for (x, y), place in zip(marks, places, strict=True):
        left = x + place.dx - {"left": 0, "center": 30, "right": 60}[place.align]
        boxes.append((left, y + place.dy - 7, left + 60, y + place.dy + 7))
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart
