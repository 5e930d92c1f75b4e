"""Axes: ticks that can be told apart, whatever the values."""

from __future__ import annotations

import numpy as np
import pytest

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
