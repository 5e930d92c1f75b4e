"""`fedbandits run`: an experiment, its claims and their verdicts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.options import AsJson, Engine, Jobs, OutDirectory, all_cores

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

NAME = "run"
EXAMPLE = (
    "Example: [bold]fedbandits run async-tradeoff --seeds 5[/bold], or [bold]fedbandits run my-experiment.toml[/bold]"
)


def command(
    experiment: Annotated[str, typer.Argument(help="Name of a shipped experiment, or path of a TOML file.")],
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", "-s", help="How many seeds; as the file says if not given.", show_default=False),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="At full size, for experiments that have one; may take hours, or days."),
    ] = False,
    jobs: Jobs = None,
    engine: Engine = "local",
    out: OutDirectory = None,
    known: Annotated[
        Path | None,
        typer.Option(
            "--known",
            help="A file with ends of runs, as docs/verdicts/runs has them: these are not run again.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and judge its claims. Results go to results/NAME unless --out says otherwise.

    Those of --full go to results/NAME-full. `fedbandits list experiments` says which experiments have a full size.

    Finished runs are kept as they come: stop it at any time, and the same command goes on from there.
    """
    into = out or Path("results") / (Path(experiment).stem + ("-full" if full else ""))
    run_into(into, experiment, seeds, all_cores(jobs), engine, as_json, full=full, known=known)


def run_into(
    directory: Path,
    experiment: str,
    seeds: int | None,
    jobs: int,
    engine: str,
    as_json: bool,
    command: str | None = None,
    *,
    full: bool = False,
    known: Path | None = None,
) -> None:
    """Run `experiment` into `directory` and show what came of it."""
    from fedbandits.cli.progress import watched
    from fedbandits.cli.show import present
    from fedbandits.experiments import load_experiment, run_experiment
    from fedbandits.findings.ends import Ends

    loaded = load_experiment(experiment)
    ends = None if known is None else Ends.read(known)
    if full:
        loaded = loaded.enlarged()
    with watched(directory) as bars:
        results = run_experiment(loaded, seeds, jobs, directory, engine, known=ends, watcher=bars)
    if command is None:
        command = run_command(experiment, results, full=full)
    present(results, directory, command=command, as_json=as_json)


def run_command(experiment: str, results: Results, *, full: bool = False) -> str:
    """What to type to get `results` of `experiment` again; seeds that claims alone ask for are in its file."""
    seeds, shared = results.frame["seed"].nunique(), results.compared()["seed"].nunique()
    asked = ["--seeds", str(seeds)] if seeds == shared else []
    return shlex.join(["fedbandits", "run", experiment, *(["--full"] if full else []), *asked])
