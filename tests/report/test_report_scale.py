"""Classes of a sequential scale: every value in exactly one, round edges, numbers in the legend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.report.palette import SCALE
from fedbandits.report.scale import Scale


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40))
def test_every_value_lies_in_its_class(values: list[float]) -> None:
    known = np.round(np.array(values), 6)
    scale = Scale.over(known)
    found = scale.classes(known)
    low, high = np.array(scale.edges)[found], np.array(scale.edges)[found + 1]
    assert (low <= known).all()
    assert (known <= high).all()
    assert len(scale) >= 1


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ([5.0, 5.0], (5.0, 5.0)),
        ([0.0, 0.0], (0.0, 0.0)),
        ([3.0, 17.0], (2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5)),
        ([90.0, 100.0], (90.0, 92.0, 94.0, 96.0, 98.0, 100.0)),
        ([0.7, 54.0], (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)),
        ([0.17, 100.0], (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
        ([0.0, 1.0, 30.0], (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)),
        ([1.0, 1e6], (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)),
    ],
)
def test_edges_are_round_and_few(values: list[float], edges: tuple[float, ...]) -> None:
    assert Scale.over(np.array(values)).edges == edges
    assert len(edges) - 1 <= len(SCALE)


def test_colours_go_from_end_to_end_in_order() -> None:
    for edges in ((0.0, 1.0), (0.0, 1.0, 2.0), (0.0, 1.0, 2.0, 3.0, 4.0)):
        scale = Scale(edges)
        inks = [SCALE.index(scale.ink(index)) for index in range(len(scale))]
        assert inks == sorted(set(inks))
        if len(scale) > 1:
            assert (inks[0], inks[-1]) == (0, len(SCALE) - 1)


def test_the_legend_has_numbers() -> None:
    scale = Scale((0.5, 1.0, 20.0, 100.0))
    assert [scale.told(index, "%") for index in range(3)] == ["0.5 – 1 %", "1 – 20 %", "20 – 100 %"]
    assert Scale((5.0, 5.0)).told(0, "%") == "5 %"
