"""Classes of a quantity, each with a colour of a sequential scale, and what the legend says of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.report.axes import worth_a_log
from fedbandits.report.palette import SCALE, Ink
from fedbandits.report.readable import human

_LADDERS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Steps within a decade, the finest first."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Class i holds the values from `edges[i]` up to, but not including, `edges[i + 1]`; the last one includes it."""

    edges: tuple[float, ...]

    @classmethod
    def over(cls, values: FloatArray) -> Scale:
        """A few round classes over `values`, none negative: by ratios where they span a factor of 8 or more."""
        low, high = float(values.min()), float(values.max())
        if high - low <= 1e-9 * high:
            return cls((low, high))
        if worth_a_log(values):
            positive = float(values[values > 0].min())
            return cls((*((0.0,) if low == 0 else ()), *_by_ratios(positive, high, len(SCALE) - (low == 0))))
        return cls(_by_steps(low, high, len(SCALE)))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def classes(self, values: FloatArray) -> IntArray:
        """The class of each value; values beyond the scale count as those at its end."""
        return np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, len(self) - 1)

    def ink(self, index: int) -> Ink:
        """The colour of a class: the whole range of the scale is used, however few classes there are."""
        return SCALE[round(index * (len(SCALE) - 1) / (len(self) - 1))] if len(self) > 1 else SCALE[len(SCALE) // 2]

    def told(self, index: int, unit: str = "") -> str:
        """The class in words."""
        low, high = self.edges[index : index + 2]
        if low == high:
            return human(low, unit)
        return f"{human(low)} – {human(high, unit)}"


def _by_steps(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round edges in equal steps from at or below `low` to at or above `high`, at most `most` classes."""
    for steps in range(most, 0, -1):
        ticks = np.asarray(MaxNLocator(nbins=steps, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        edges = ticks[np.searchsorted(ticks, low, "right") - 1 : np.searchsorted(ticks, high, "left") + 1]
        if len(edges) - 1 <= most:
            return tuple(float(f"{edge:.12g}") for edge in edges)
    return low, high


def _by_ratios(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round edges from at or below `low` to at or above `high`, at most `most` classes if decades can do it."""
    edges: list[float] = []
    for steps in _LADDERS:
        decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        rungs = [float(f"{step}e{decade}") for decade in decades for step in steps]
        below = [rung for rung in rungs if rung <= low]
        above = [rung for rung in rungs if rung >= high]
        edges = [rung for rung in rungs if below[-1] <= rung <= above[0]]
        if len(edges) - 1 <= most:
            break
    return tuple(edges)
