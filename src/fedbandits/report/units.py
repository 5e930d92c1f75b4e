"""The definitions of the units, read from where they are defined: the ledger's documentation."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from fedbandits.contract import ledger


def definitions() -> list[Markup]:
    """Each definition of `ledger` as a line of HTML, defined terms emphasised."""
    text = ledger.__doc__ or ""
    items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    flat = [" ".join(item.split("\n\n")[0].split()).rstrip(";.") for item in items]
    return [Markup(re.sub(r"\*(\w+)\*", r"<dfn>\1</dfn>", str(escape(item)))) for item in flat]
