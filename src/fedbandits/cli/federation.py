"""`fedbandits federation`: deployed agents that talk through Flower."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fedbandits.cli import federation_features, federation_members, federation_quarantine, federation_server
from fedbandits.cli.options import AsJson

NAME = "federation"
EXAMPLE = "Example: [bold]fedbandits federation demo --steps 200[/bold]"

app = typer.Typer(no_args_is_help=True, help="Deployed agents that talk through Flower.", epilog=EXAMPLE)


@app.callback()
def federation() -> None:
    """Deployed agents that talk through Flower."""


@app.command(epilog=EXAMPLE)
def demo(
    agents: Annotated[int, typer.Option(help="How many agents.", min=2, max=50)] = 5,
    steps: Annotated[int, typer.Option(help="Decisions of each agent.", min=1)] = 300,
    pace: Annotated[float, typer.Option(help="Decisions of each agent per second.", min=0.1)] = 10.0,
    seed: Annotated[int, typer.Option(help="Of the traffic.", min=0)] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="New directory that keeps agents, keys and logs.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a federation on this machine, feed it with traffic, and show what talking was worth.

    A SuperLink with TLS, the server and one node per agent, each with a key of its own, all on loopback. Everything
    that was started is stopped at the end, also on Ctrl-C.
    """
    from rich.console import Console

    from fedbandits.cli.console import print_json
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.machine.demo import run_demo

    result = run_demo(
        agents=agents, steps=steps, pace=pace, seed=seed, directory=out, console=Console(quiet=as_json), alone=True
    )
    if as_json:
        print_json(dataclasses.asdict(result))


Directory = Annotated[Path, typer.Argument(help="Where federation.json and server.db are.")]


@app.command()
def certificates(
    directory: Annotated[Path, typer.Argument(help="Where they are written.")],
    hosts: Annotated[list[str], typer.Argument(help="Names and addresses by which nodes reach the SuperLink.")],
) -> None:
    """Make a certificate for a SuperLink, and an authority unless there is one."""
    _operate().certificates(directory, hosts)


@app.command()
def gate(
    certificates: Annotated[Path, typer.Argument(help="Where `certificates` has written them.")],
    host: Annotated[str, typer.Option(help="Where nodes reach it.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Given to nodes.", min=1, max=65535)] = 9092,
    superlink: Annotated[str, typer.Option(help="Where the SuperLink listens, which only operators reach.")] = (
        "127.0.0.1:9093"
    ),
) -> None:
    """Let nodes through to a SuperLink on loopback, and nobody to its control interface. Runs until stopped."""
    from fedbandits.cli.console import note
    from fedbandits.contract.extras import require

    require("deploy", "uvicorn", "httpx")
    from fedbandits.deploy.flower.gate import serve

    serve(host, port, superlink, certificates, ready=lambda: note(f"nodes may come to {host}:{port}"))


@app.command()
def key(path: Annotated[Path, typer.Argument(help="The private key; the public one goes beside it.")]) -> None:
    """Make a node's key pair."""
    _operate().key(path)


@app.command()
def describe(agent: Annotated[Path, typer.Argument(help="The file of one of the agents.")]) -> None:
    """Print federation.json, what the server has to know of its agents: settings, and nothing that was observed."""
    _operate().describe(agent)


@app.command()
def project() -> None:
    """Print the directory that `flwr run` takes."""
    _operate().project()


@app.command()
def status(directory: Directory, as_json: AsJson = False) -> None:
    """Show how the server is getting on."""
    from fedbandits.cli.console import print_facts

    print_facts(_operate().status(directory), as_json=as_json)


@app.command()
def release(directory: Directory, identity: Annotated[int, typer.Argument(help="The agent.", min=0)]) -> None:
    """Let another key speak for an agent from now on: after its node got a new one."""
    _operate().release(directory, identity)


federation_server.add_to(app)
federation_features.add_to(app)
federation_quarantine.add_to(app)
federation_members.add_to(app)


def _operate() -> ModuleType:
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.operating import operate

    return operate
