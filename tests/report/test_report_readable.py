import math

import pytest

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


def test_as_many_digits_as_asked_for() -> None:
    assert [human(1_000_002.5, "B", digits) for digits in (3, 7, 8)] == ["1 MB", "1.000002 MB", "1.0000025 MB"]


def test_exact_numbers_lose_nothing_before_the_point() -> None:
    assert exact(123_456_789.0) == "123,456,789"
    assert exact(123_456_789.25) == "123,456,789.25"


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [(1065.2, 20.1, "1065 ± 20"), (51.482, 0.62, "51.48 ± 0.62"), (5.0, 0.0, "5"), (2.0, math.nan, "2")],
)
def test_mean_with_error(mean: float, error: float, text: str) -> None:
    assert with_error(mean, error) == text
