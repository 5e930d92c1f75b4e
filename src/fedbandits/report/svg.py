"""A matplotlib figure as an SVG element that lives inside a page: text stays text, colours follow the page's mode."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fedbandits.report.palette import INKS

_CSS = {ink.stand_in: ink.css for ink in INKS}
_STAND_IN = re.compile("|".join(_CSS))
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SERIES = re.compile(r"series-(\d+)-(\w+)")


def series_mark(index: int, part: str) -> str:
    """The gid that makes an artist part of series `index` in the page, where the legend can hide it."""
    return f"series-{index}-{part}"


def inline_svg(figure: Figure, name: str, title: str, written: Mapping[str, str] | None = None) -> Markup:
    """`figure` as an `<svg>` element with ids of its own, an accessible name and CSS variables for colours.

    `written` says how names were written: those that lost something have the whole name as a tooltip.
    """
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
            out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    root = ElementTree.fromstring(out.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("metadata"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _restyle(key, value, name) for key, value in element.attrib.items()}
        _mark_series(element, name)
    _explain(root, {short: full for full, short in (written or {}).items() if short != full})
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "class": "plot", "aria-label": title}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def _restyle(key: str, value: str, name: str) -> str:
    if _local(key) == "id":
        return f"{name}-{value}"
    if _local(key) == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = _STAND_IN.sub(lambda found: _CSS[found[0]], value)
    return _REFERENCE.sub(lambda found: f"url(#{name}-{found[1]})", value)


def _mark_series(element: ElementTree.Element, name: str) -> None:
    """Several artists share a mark, so it becomes a class instead of an id."""
    found = _SERIES.fullmatch(element.attrib.get("id", "").removeprefix(f"{name}-"))
    if found:
        del element.attrib["id"]
        element.attrib |= {"class": found[2], "data-series": found[1]}


def _explain(root: ElementTree.Element, full: Mapping[str, str]) -> None:
    """A tooltip for every text that stands for a longer one."""
    for element in [element for element in root.iter("text") if element.text in full]:
        tip = ElementTree.Element("title")
        tip.text, tip.tail = full[element.text or ""], element.text
        element.text = None
        element.insert(0, tip)
