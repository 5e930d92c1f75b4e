"""docs/speed.md says what was measured: `python -m benchmarks.page docs/speed.md [--record docs/speed.json] [--check]`.

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
    """Fill a page in, or check that it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--record", type=Path, default=Path("docs/speed.json"), help="what was measured")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page says something else")
    options = parser.parse_args()
    page, record = options.page.read_text(encoding="utf-8"), json.loads(options.record.read_text(encoding="utf-8"))
    made = filled(page, record)
    if options.check:
        sys.exit(0 if made == page else f"{options.page} says other things than {options.record}: run `make speed`")
    options.page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
