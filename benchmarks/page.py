"""Pages say what was measured: `python -m benchmarks.page docs/speed.md ... [--record docs/speed.json] [--check]`.

Between `<!-- speed NAME -->` and `<!-- /speed -->` stands a table, or a line, made of what `python -m benchmarks
--record` has written (`benchmarks.tables`). `--check` writes nothing, and fails if the page says something else.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables import TABLES

MARK = re.compile(r"<!-- speed (?P<name>\S+) -->(?P<text>.*?)<!-- /speed -->", re.DOTALL)


def filled(page: str, record: dict[str, Any]) -> str:
    """`page` with every mark filled in."""

    def one(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name not in TABLES:
            raise SystemExit(f"speed {name}: there is no such table; there are {', '.join(sorted(TABLES))}")
        said = TABLES[name](record)
        space = "\n" if "\n" in said else ""
        return f"<!-- speed {name} -->{space}{said}{space}<!-- /speed -->"

    return MARK.sub(one, page)


def main() -> None:
    """Fill pages in, or check that they are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--record", type=Path, default=Path("docs/speed.json"), help="what was measured")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page says something else")
    options = parser.parse_args()
    record = json.loads(options.record.read_text(encoding="utf-8"))
    for path in options.pages:
        page = path.read_text(encoding="utf-8")
        made = filled(page, record)
        if not options.check:
            path.write_text(made, encoding="utf-8")
        elif made != page:
            sys.exit(f"{path} says other things than {options.record}: run `make speed`")


if __name__ == "__main__":
    main()
