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
            "--algorithm",
            "-a",
            help="NAME:KEY=VALUE,..., with LABEL= in front, |STAGE:KEY=VALUE,... behind if wanted; of your own: "
            "MODULE:CLASS,KEY=VALUE,... Once for each.",
            show_default=False,
        ),
    ],
    environment: Annotated[
        str, typer.Option("--environment", "-e", help="NAME:KEY=VALUE,..., or MODULE:CLASS,...")
    ] = "linear",
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            "-n",
            help="What agents without a server talk on: NAME:KEY=VALUE,...",
            show_default=False,
        ),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            "--attack",
            help="Who lies to the server: flip, shift, inflate, collude or adaptive, with :share=0.2,...",
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
    from fedbandits.cli.progress import watched
    from fedbandits.cli.show import present
    from fedbandits.contract.catalogue import ConfigError
    from fedbandits.simulation.arguments import algorithms_of, environment_of, network_of
    from fedbandits.studies.compare import comparison
    from fedbandits.transport.attack import attack_of

    chosen, world, place = algorithms_of(algorithms, "-a"), environment_of(environment, "-e"), network_of(network, "-n")
    if horizon < 1:
        raise ConfigError(f"--horizon: must be at least 1 (got {horizon})")
    with watched(out) as bars:
        results = comparison(
            chosen,
            world,
            horizon,
            seeds,
            all_cores(jobs),
            network=place,
            attack=attack_of(attack, "--attack"),
            engine=engine,
            out=out,
            progress=bars,
        )
    present(results, out, as_json=as_json)
