"""A line as it is drawn in the pictures, small enough to stand beside its name."""

from __future__ import annotations

from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from fedbandits.report.palette import Style

_WIDTH, _HEIGHT = 38, 12
_STROKE = 1.8
_MARKER = 8.5
"""Pixels."""
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}


def swatch(look: Style) -> Markup:
    """Stroke, dash, colour and marker of `look` as an SVG element."""
    dash = "" if isinstance(look.dash, str) else " ".join(f"{_STROKE * part:.3g}" for part in look.dash[1])
    middle = _HEIGHT / 2
    return Markup(
        '<svg class="swatch line" viewBox="0 0 {width} {height}" aria-hidden="true">'
        '<path d="M0 {middle}H{width}" style="fill: none; stroke: {colour}; stroke-width: {stroke}"{dashes}/>'
        '<path d="{marker}" transform="translate({centre} {middle})" style="fill: {colour}"/></svg>'
    ).format(
        width=_WIDTH,
        height=_HEIGHT,
        middle=middle,
        centre=_WIDTH / 2,
        colour=look.ink.css,
        stroke=_STROKE,
        dashes=Markup(' stroke-dasharray="{}"').format(dash) if dash else "",
        marker=_outline(look.marker),
    )


def _outline(marker: str) -> str:
    """The outline of a marker around the origin, as SVG path data."""
    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    parts = []
    for corners, code in path.iter_segments(curves=True, simplify=False):
        # y points downwards in SVG
        numbers = [f"{_MARKER * value * (-1 if at % 2 else 1):.2f}" for at, value in enumerate(corners)]
        parts.append(_LETTERS[code] + (" ".join(numbers) if code != Path.CLOSEPOLY else ""))
    return "".join(parts)
