"""Who is drawn, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedbandits.report.palette import Style, style
from fedbandits.report.svg import series_mark


@dataclass(frozen=True, slots=True)
class Series:
    """Who is drawn, in which order: the position in `names` is the style, the same in every picture.

    `offset` sets the marks of other series apart from those the page's legend switches on and off.
    """

    names: Sequence[str]
    offset: int = 0

    def style(self, name: str, variant: int = 0) -> Style:
        """The style of series `name`, or of one of several lines of it."""
        return style(self.names.index(name), variant, len(self.names))

    def mark(self, name: str, part: str) -> str:
        """The gid of a part of series `name`."""
        return series_mark(self.offset + self.names.index(name), part)
