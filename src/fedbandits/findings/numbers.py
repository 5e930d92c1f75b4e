"""Figures in sentences."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """A figure to be read: from a hundred on whole numbers, smaller ones with three significant digits.

    >>> number(1234567.8), number(12.34), number(math.inf), number(math.nan)
    ('1,234,568', '12.3', 'infinite', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "infinite" if value > 0 else "minus infinite"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rounded(count: int) -> str:
    """A number of things that is an estimate: two digits of it.

    >>> rounded(7), rounded(187), rounded(123456)
    ('7', '190', '120,000')
    """
    places = max(len(str(count)) - 2, 0)
    return f"{round(count, -places):,}"
