"""Numbers as people read them: 1.2 M messages, 3.4 GB, 812 ± 14."""

from __future__ import annotations

import math

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def human(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` with `digits` significant digits and a decimal prefix.

    >>> human(1234567), human(950), human(0), human(3_400_000_000, "B"), human(0.01234), human(999_999)
    ('1.23 M', '950', '0', '3.4 GB', '0.0123', '1 M')
    >>> human(100, "%", 2), human(-0.00001)
    ('100 %', '−1e-05')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return f"0 {unit}".strip()
    rounded = float(f"{value:.{digits}g}")
    step = min(max(0, math.floor(math.log10(abs(rounded)) / 3 + 1e-12)), len(_PREFIXES) - 1)
    shown = f"{float(f'{abs(rounded) / 1000**step:.{digits}g}'):.{max(digits, 6)}g}"
    shown = f"−{shown}" if rounded < 0 else shown
    return f"{shown} {_PREFIXES[step]}{unit}".rstrip()


def exact(value: float) -> str:
    """`value` in full: integers with thousands separators, others with six significant digits or all before the point.

    >>> exact(1234567.0), exact(1234.5678), exact(0.000012345678), exact(float("nan"))
    ('1,234,567', '1,234.57', '1.23457e-05', 'unknown')
    """
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.6g}"


def with_error(mean: float, error: float) -> str:
    """Mean and standard error, the mean to the digit where its error starts to matter.

    >>> with_error(812.345, 14.2), with_error(0.51234, 0.0123), with_error(45210.0, 1234.0), with_error(3.25, math.nan)
    ('812 ± 14', '0.512 ± 0.012', '45.2 k ± 1.2 k', '3.25')
    """
    if not math.isfinite(mean) or not math.isfinite(error) or error == 0:
        return human(mean)
    scale, prefix = _scale(max(abs(mean), error))
    mean, error = mean / scale, error / scale
    decimals = max(0, 1 - math.floor(math.log10(error)))
    decimals = min(decimals, max(0, 3 - math.floor(math.log10(max(abs(mean), 1e-12)))))
    suffix = f" {prefix}" if prefix else ""
    return f"{mean:.{decimals}f}{suffix} ± {error:.{decimals}f}{suffix}".replace("-", "−")


def _scale(value: float) -> tuple[float, str]:
    step = max(0, math.floor(math.log10(value) / 3 + 1e-12)) if value >= 10_000 else 0
    step = min(step, len(_PREFIXES) - 1)
    return 1000.0**step, _PREFIXES[step]
