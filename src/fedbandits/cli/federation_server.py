"""`fedbandits federation serve` and `metrics`: the server, kept running and watched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Directory = Annotated[Path, typer.Argument(help="Where federation.json and server.db are.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to a group."""
    app.command()(serve)
    app.command()(metrics)


def serve(
    directory: Directory,
    superlink: Annotated[str, typer.Option(help="The SuperLink's control interface.")] = "127.0.0.1:9093",
    root_certificates: Annotated[
        Path | None, typer.Option(help="ca.crt of the SuperLink; DIRECTORY/tls/ca.crt if left out.", show_default=False)
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two rings.")] = 1.0,
    wait_for_rings: Annotated[float, typer.Option(help="Seconds for agents to say whether they call.", min=0)] = 10.0,
    wait_for_answers: Annotated[float, typer.Option(help="Seconds before the silent are left out.", min=0)] = 30.0,
    wait_for_everybody: Annotated[
        float, typer.Option(help="The same for algorithms that need all; negative: for ever.")
    ] = -1.0,
    repeat_after: Annotated[float, typer.Option(help="Seconds before a letter is sent again.", min=0.1)] = 10.0,
    observations_per_second: Annotated[
        float, typer.Option(help="What an honest agent observes at most, beyond the horizon; more is declined.", min=0)
    ] = 10_000.0,
    strikes: Annotated[
        int, typer.Option(help="Conversations an agent may spoil in a day before it is left out.", min=1)
    ] = 3,
) -> None:
    """Keep the server of a federation running: start its run at the SuperLink, watch it, start it again.

    Stops the run and itself on SIGTERM and Ctrl-C.
    """
    from fedbandits.contract.errors import ConfigError
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.book.names import SETTINGS
    from fedbandits.deploy.flower.conversation.carrier import Patience
    from fedbandits.deploy.flower.machine.runs import Runs, run_config
    from fedbandits.deploy.flower.operating.supervision import Supervisor, until_signalled
    from fedbandits.deploy.flower.trust.past import Trust

    if not (directory / SETTINGS).is_file():
        raise ConfigError(f"{directory} holds no {SETTINGS}; write it with: fedbandits federation describe agent.db")
    authority = root_certificates or directory / "tls" / "ca.crt"
    if not authority.is_file():
        raise ConfigError(f"--root-certificates: {authority} does not exist")
    patience = Patience(
        ring=wait_for_rings,
        answer=wait_for_answers,
        everybody=None if wait_for_everybody < 0 else wait_for_everybody,
        repeat=repeat_after,
    )
    trust = Trust(pace=observations_per_second, strikes=strikes)
    with Runs(superlink, authority.read_bytes()) as runs:
        until_signalled(Supervisor(directory, runs, run_config(directory, interval, patience, trust)))


def metrics(
    directory: Directory,
    host: Annotated[
        str, typer.Option(help="Where to listen; other than this machine itself needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 9095,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="File with the bearer token that readers have to send.", show_default=False),
    ] = None,
) -> None:
    """Serve the server's metrics for Prometheus, by what its book says: also while the server is down."""
    from fedbandits.cli.console import note
    from fedbandits.contract.errors import ConfigError
    from fedbandits.contract.extras import require

    require("deploy", "starlette", "uvicorn", "prometheus_client")
    from fedbandits.deploy.flower.operating.metrics_service import serve_metrics
    from fedbandits.deploy.http.access import find_token, resolve
    from fedbandits.deploy.http.listening import listen

    token = find_token(token_file, {})
    address = resolve(host, port)
    if token is None and not address.is_loopback:
        raise ConfigError(f"--host {address.host} can be reached from other machines: give --token-file")
    if not directory.is_dir():
        raise ConfigError(f"{directory} is no directory")
    with listen(address) as listener:
        url = address.url(listener.getsockname()[1])
        serve_metrics(directory, token, listener, ready=lambda: note(f"metrics of {directory} on {url}/metrics"))
