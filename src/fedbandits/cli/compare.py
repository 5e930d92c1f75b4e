"""`fedbandits compare`: algorithms side by side on one environment."""

from __future__ import annotations

from typing import Annotated

import typer

from fedbandits.cli.options import AsJson, Engine, Jobs, OutDirectory, all_cores

NAME = "compare"
EXAMPLE = (
    "Example: [bold]fedbandits compare -a dislinucb:threshold=2 -a alone=independent-linucb "
    "-e linear:clients=20,dim=10 --horizon 500 --seeds 3[/bold]"
)


def command(
    algorithms: Annotated[
        list[str],
        typer.Option(
            "--algorithm", "-a", help="NAME:KEY=VALUE,... or LABEL=NAME:...; once for each.", show_default=False
        ),
    ],
    environment: Annotated[str, typer.Option("--environment", "-e", help="NAME:KEY=VALUE,...")] = "linear",
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            "-n",
            help="What agents without a server talk on: NAME:KEY=VALUE,...",
            show_default=False,
        ),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", "-T", help="Steps of each run.")] = 1000,
    seeds: Annotated[int, typer.Option("--seeds", "-s", help="How many seeds: 0, 1, ...")] = 5,
    jobs: Jobs = None,
    engine: Engine = "local",
    out: OutDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Run algorithms under the same seeds, hence the same arms and noise, and compare regret and communication."""
    from fedbandits.algorithms import ALGORITHMS
    from fedbandits.cli import specs
    from fedbandits.cli.progress import watched
    from fedbandits.cli.show import present
    from fedbandits.contract.catalogue import ConfigError
    from fedbandits.environments import ENVIRONMENTS
    from fedbandits.graphs.topologies import NETWORKS
    from fedbandits.studies.compare import comparison

    chosen = specs.by_label([specs.parse(text, "-a") for text in algorithms])
    built = {label: specs.built(ALGORITHMS, spec, "algorithm") for label, spec in chosen.items()}
    world = specs.built(ENVIRONMENTS, specs.parse(environment, "-e"), "environment")
    place = None if network is None else specs.built(NETWORKS, specs.parse(network, "-n"), "network")
    if horizon < 1:
        raise ConfigError(f"--horizon: must be at least 1 (got {horizon})")
    with watched(out) as bars:
        results = comparison(
            built, world, horizon, seeds, all_cores(jobs), network=place, engine=engine, out=out, progress=bars
        )
    present(results, out, as_json=as_json)
