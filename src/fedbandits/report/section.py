"""Sections: the pieces a report is put together from.

A section is built from results by a plain function, which returns None where it has nothing to say. Whoever has
pictures of their own (client graphs, networks) writes such a function and hands it to `write_report`, or appends it to
`SECTIONS`; the page itself knows nothing of what is inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the page; `key` is its anchor, `body` finished HTML."""

    key: str
    title: str
    body: Markup


SectionBuilder = Callable[["Results"], Section | None]


def render(template: str, **values: Any) -> Markup:
    """A template of this package, filled in; every value is escaped unless it is `Markup`."""
    return Markup(_templates().get_template(template).render(**values))


def source_of(name: str) -> Markup:
    """A file of the template directory as it is (styles and script)."""
    environment = _templates()
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


@cache
def _templates() -> Environment:
    loader = PackageLoader("fedbandits.report")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
