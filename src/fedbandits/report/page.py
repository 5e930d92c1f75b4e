"""One self-contained HTML file: styles, script and pictures inside, nothing fetched from anywhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

import fedbandits
from fedbandits.report.headline import headline
from fedbandits.report.palette import css_variables
from fedbandits.report.section import SectionBuilder, render, source_of
from fedbandits.report.sections import SECTIONS
from fedbandits.report.summary import check_finished

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


def page(results: Results, sections: Sequence[SectionBuilder] | None = None) -> str:
    """The report of `results` as HTML; `sections` in this order, by default `SECTIONS`."""
    builders = SECTIONS if sections is None else sections
    built = [section for builder in builders if (section := builder(results)) is not None]
    return str(
        render(
            "page.html",
            results=results,
            headline=headline(results),
            sections=built,
            version=fedbandits.__version__,
            style=Markup(css_variables()) + source_of("page.css"),
            script=source_of("page.js"),
        )
    )


def write_report(
    results: Results,
    path: Path | str,
    sections: Sequence[SectionBuilder] | None = None,
    *,
    command: str | None = None,
) -> Path:
    """Write the report to `path`, whole or not at all, and return the path.

    `command` is what reproduces the results; that of a comparison is known without being told.
    """
    path = Path(path)
    check_finished(results)
    if command is not None:
        results = replace(results, settings={**results.settings, "command": command})
    text = page(results, sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    return path
