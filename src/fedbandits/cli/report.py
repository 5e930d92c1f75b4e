"""`fedbandits report`: the report of results that are already there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.options import AsJson

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

NAME = "report"
EXAMPLE = "Example: [bold]fedbandits report results/demo --out demo.html[/bold]"


def command(
    directory: Annotated[Path, typer.Argument(help="What --out was when the results were made.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; DIRECTORY/report.html if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the HTML report of a directory of results, finished or not; or print what it says as JSON.

    With --json the page is written only where --out says so.
    """
    from fedbandits.cli.console import out as stdout
    from fedbandits.cli.console import print_json
    from fedbandits.cli.show import REPORT, as_dict
    from fedbandits.contract.catalogue import ConfigError
    from fedbandits.findings.results import Results
    from fedbandits.report import write_report

    if not directory.is_dir():
        raise ConfigError(f"directory: {directory} does not exist; give the --out of an earlier run or comparison")
    if out is not None and out.is_dir():
        raise ConfigError(f"--out: {out} is a directory; name a file in it, such as {out / REPORT}")
    results = Results.load(directory)
    command = _command(results)
    if command is not None:
        results = replace(results, settings={**results.settings, "command": command})
    path = write_report(results, out or directory / REPORT) if out is not None or not as_json else None
    if as_json:
        print_json(as_dict(results, directory, path))
    else:
        stdout().print(str(path), soft_wrap=True, markup=False)


def _command(results: Results) -> str | None:
    """What runs the shipped experiment of their title again, which tells its size; None if none has it."""
    from fedbandits.cli.run import run_command
    from fedbandits.experiments import load_experiment, shipped_experiments

    for name in shipped_experiments():
        experiment = load_experiment(name)
        for size in (experiment, experiment.large):
            if size is not None and size.title == results.title:
                return run_command(name, results, full=size is not experiment)
    return None
