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
