"""Results on a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedbandits.cli.console import out, print_json
from fedbandits.findings.results import Results, Verdict
from fedbandits.report.budgets import budgets_of
from fedbandits.report.headline import duration
from fedbandits.report.page import write_report
from fedbandits.report.plain import plain_report
from fedbandits.report.published import published_table
from fedbandits.report.table import summary_table

REPORT = "report.html"
_VERDICTS = {"holds": ("✓ holds", "bold green"), "fails": ("✗ fails", "bold red")}
_UNDECIDED = ("? undecided", "bold yellow")


def present(results: Results, directory: Path | None, *, command: str | None = None, as_json: bool) -> None:
    """Write the report into `directory`, if there is one, and print everything."""
    report = write_report(results, directory / REPORT, command=command) if directory is not None else None
    if as_json:
        print_json(as_dict(results, directory, report))
        return
    console = out()
    console.print(Text(results.title, style="bold"))
    if results.claims:
        console.print(_verdicts(results.claims))
    if results.published:
        console.print(Text("Published figure above, ours with its standard error below:", style="dim"))
        console.print(published_table(results))
    console.print(summary_table(results))
    for title, budget in budgets_of(results).items():
        console.print(Text.assemble(f"{title}: ", (str(budget), "dim")))
    if report is not None:
        console.print(Text.assemble("report: ", (str(report), "bold")), soft_wrap=True)


def _verdicts(claims: Sequence[Verdict]) -> Table:
    lines = Table.grid(padding=(0, 2, 0, 0))
    for claim in claims:
        word, style = _VERDICTS.get(claim.verdict, _UNDECIDED)
        took = claim.details.get("seconds_to_decide")
        price = "" if took is None else f", in {duration(took)} of one core here"
        lines.add_row(Text(word, style=style), Text.assemble(claim.text, "\n", (claim.measured + price, "dim")))
    return lines


def as_dict(results: Results, directory: Path | None = None, report: Path | None = None) -> dict[str, Any]:
    """Results for programs: what a report says, and where it is."""
    return plain_report(results) | {
        "directory": None if directory is None else str(directory),
        "report": None if report is None else str(report),
    }
