"""`fedbandits run`: an experiment, its claims and their verdicts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import AsJson, Engine, Jobs, OutDirectory, all_cores

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
    jobs: Jobs = None,
    engine: Engine = "local",
    out: OutDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and judge its claims. Results go to results/NAME unless --out says otherwise.

    Finished runs are kept as they come: stop it at any time, and the same command goes on from there.
    """
    run_into(out or Path("results") / Path(experiment).stem, experiment, seeds, all_cores(jobs), engine, as_json)


def run_into(
    directory: Path,
    experiment: str,
    seeds: int | None,
    jobs: int,
    engine: str,
    as_json: bool,
    command: str | None = None,
) -> None:
    """Run `experiment` into `directory` and show what came of it."""
    from fedbandits.cli.progress import watched
    from fedbandits.cli.show import present
    from fedbandits.experiments import load_experiment, run_experiment

    loaded = load_experiment(experiment)
    with watched(directory) as bars:
        results = run_experiment(loaded, seeds, jobs, directory, engine, watcher=bars)
    if command is None:
        command = run_command(experiment, results.frame["seed"].nunique())
    present(results, directory, command=command, as_json=as_json)


def run_command(experiment: str, seeds: int) -> str:
    """What to type to run `experiment` again."""
    return shlex.join(["fedbandits", "run", experiment, "--seeds", str(seeds)])
