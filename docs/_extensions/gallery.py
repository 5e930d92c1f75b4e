"""Pictures of reports for a page: `python docs/_extensions/gallery.py docs/gallery.md`.

Every picture that the page shows as images/gallery/EXPERIMENT--PLACE.svg is taken from results/EXPERIMENT/report.html,
as `fedbandits run EXPERIMENT` has written it: the PLACE-th one, from 1. What was not run keeps its picture.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

SHOWN = re.compile(r"\]\((images/gallery/(?P<name>[\w-]+?)--(?P<place>\d+)\.svg)\)")
PLOT = re.compile(r'<svg(?P<head>[^>]*class="plot"[^>]*)>(?P<rest>.*?</svg>)', re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 (\d+) (\d+)"')


def standalone(plot: re.Match[str]) -> str:
    """A picture of a page as a file: with a name space and a size, on white."""
    found = _SIZE.search(plot["head"])
    size = "" if found is None else f' width="{found[1]}" height="{found[2]}"'
    # a page says it for all its pictures
    look = "<style>text{font-family:system-ui,sans-serif}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff"{size}{plot["head"]}>{look}{plot["rest"]}\n'


def main(words: Sequence[str] | None = None) -> int:
    """Take the pictures of a page from reports."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where `fedbandits run` has left them")
    given = parser.parse_args(words)
    for shown in SHOWN.finditer(given.page.read_text(encoding="utf-8")):
        report = given.results / shown["name"] / "report.html"
        if not report.is_file():
            print(f"{shown['name']}: no report; `fedbandits run {shown['name']}`", file=sys.stderr)
            continue
        plots = list(PLOT.finditer(report.read_text(encoding="utf-8")))
        if int(shown["place"]) > len(plots):
            print(f"{report} has {len(plots)} pictures, not {shown['place']}", file=sys.stderr)
            return 2
        path = given.page.parent / shown[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(standalone(plots[int(shown["place"]) - 1]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
