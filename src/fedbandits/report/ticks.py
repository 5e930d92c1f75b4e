"""Ticks that can be read: round, few, and never one over another, whatever the limits turn out to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import Formatter, Locator, MaxNLocator

from fedbandits.report.readable import human

LETTER = 0.55
"""Width of an average letter, in font sizes."""
_LINE = 1.3
"""Height of a line, in font sizes."""
_MOST = 7
_MOST_DIGITS = 9
_WITHIN_A_DECADE = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_HARDLY_LOGARITHMIC = 4.0
"""Below this ratio of the limits, ticks at equal distances are rounder than those of a logarithm."""

Ladders = Callable[[float, float], Iterable[Sequence[float]]]
"""Ticks between two limits, the finest first."""


class Readable(Formatter):
    """Numbers with prefixes, and as many digits as it takes to tell one tick from the next."""

    def __init__(self, unit: str = "") -> None:
        self.unit = unit

    def __call__(self, x: float, pos: int | None = None) -> str:
        """One tick."""
        return human(x, self.unit)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """All ticks."""
        shown: list[str] = []
        for digits in range(3, _MOST_DIGITS + 1):
            shown = [human(float(value), self.unit, digits) for value in values]
            if len(set(shown)) == len(set(values)):
                break
        return shown


class Fitting(Locator):
    """The finest ticks of some ladders of which there are few and no two labels touch.

    Where every ladder has labels that touch, the one of which most are left when those that would are left out.
    """

    def __init__(self, ladders: Ladders, most: int = _MOST) -> None:
        self._ladders = ladders
        self._most = most

    def __call__(self) -> list[float]:
        """The ticks between the limits."""
        assert self.axis is not None
        return self.tick_values(*sorted(self.axis.get_view_interval()))

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """The ticks from `vmin` to `vmax`."""
        best: list[float] = []
        for ladder in self._ladders(vmin, vmax):
            seen = [float(tick) for tick in ladder if vmin <= tick <= vmax]
            kept = self._greedy(seen)
            if 2 <= len(kept) == len(seen) <= self._most:
                return kept
            if len(best) < len(kept) <= self._most:
                best = kept
        return best

    def _greedy(self, ticks: Sequence[float]) -> list[float]:
        """From the lowest on, every tick whose label does not touch that of the last one kept."""
        axis = self.axis
        assert isinstance(axis, Axis)
        kept: list[float] = []
        end = -np.inf
        labels = axis.get_major_formatter().format_ticks(list(ticks))
        for tick, label, place in zip(ticks, labels, _places(axis, ticks), strict=True):
            reach = _extent(axis, label) / 2
            if place - reach >= end:
                kept.append(tick)
                end = place + reach
        return kept


def places(values: Sequence[float]) -> Locator:
    """Ticks at `values` and nowhere else; where they are crowded, only those that have room."""
    ordered = sorted(values)
    return Fitting(lambda low, high: [ordered], most=len(ordered))


def round_numbers(low: float, high: float) -> Iterator[Sequence[float]]:
    """Ladders of equal steps."""
    for steps in range(6, 0, -1):
        yield list(MaxNLocator(nbins=steps, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def round_ratios(low: float, high: float) -> Iterator[Sequence[float]]:
    """Ladders for logarithms: steps within decades, then whole ones; equal steps if less than one is in sight."""
    if high < _HARDLY_LOGARITHMIC * low:
        yield from round_numbers(low, high)
        return
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    for steps in _WITHIN_A_DECADE:
        yield [step * 10.0**power for power in range(first, last + 1) for step in steps]
    for every in range(2, last - first + 1):
        yield [10.0**power for power in range(first, last + 1, every)]


def round_ratios_and_zero(lowest: float) -> Ladders:
    """As `round_ratios` from `lowest` on, where a linear stretch down to zero begins."""

    def ladders(_: float, high: float) -> Iterator[Sequence[float]]:
        for ladder in round_ratios(lowest, max(high, lowest * 10)):
            positive = [tick for tick in ladder if tick >= lowest]
            yield [0.0, *positive]
            yield [0.0, *positive[1:]]  # the linear stretch may be too short for a label at either end

    return ladders


def _places(axis: Axis, ticks: Sequence[float]) -> list[float]:
    """Where ticks stand along the axis, in points."""
    axes = axis.axes
    along = 0 if axis is axes.xaxis else 1
    figure = axes.get_figure()
    assert figure is not None
    corners = np.full((len(ticks), 2), axes.transData.inverted().transform(axes.transAxes.transform((0.5, 0.5))))
    corners[:, along] = ticks
    return list(axes.transData.transform(corners)[:, along] * 72 / figure.dpi) if len(ticks) else []


def _extent(axis: Axis, label: str) -> float:
    """How much of the axis a label takes, in points."""
    size = float(axis.get_tick_params()["labelsize"])
    return size * (len(label) * LETTER + 0.8 if axis is axis.axes.xaxis else _LINE)
