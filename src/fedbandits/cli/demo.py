"""`fedbandits demo`: the first thing to try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import AsJson

NAME = "demo"
EXAMPLE = "Example: [bold]fedbandits demo --out /tmp/demo[/bold], then open /tmp/demo/report.html"


def command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where results and report go.")] = Path("results/demo"),
    as_json: AsJson = False,
) -> None:
    """Fifty clients, five algorithms, five seeds on all cores: a table, and a report to look at."""
    from fedbandits.cli.options import all_cores
    from fedbandits.cli.run import run_into

    run_into(out, "demo", None, all_cores(None), "local", as_json, command="fedbandits demo")
