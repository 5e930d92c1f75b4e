"""A finished plot, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from fedbandits.report.palette import Style
from fedbandits.report.svg import inline_svg


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """A line of a picture: how it is drawn, and what it is."""

    look: Style
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot with its caption.

    `lines` names the lines whose style is not that of an algorithm in the page's legend. `hover` is what the page's
    script needs to show values under the pointer.
    """

    key: str
    title: str
    caption: str
    svg: Markup
    lines: Sequence[DrawnLine] = field(default_factory=list)
    hover: Mapping[str, Any] | None = None


def plot_svg(figure: Figure, key: str, title: str, written: Mapping[str, str]) -> Markup:
    """`figure` for the page; `written` says how names were written in it."""
    return inline_svg(figure, "plot-" + "".join(c if c.isalnum() else "-" for c in key), title, written)
