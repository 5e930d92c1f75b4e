"""`fedbandits agent serve`: a deployed agent over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NAME = "agent"
EXAMPLE = "Example: [bold]fedbandits agent serve --db agent.db --config agent.toml --token-file token[/bold]"

app = typer.Typer(no_args_is_help=True, help="A deployed agent: its service over HTTP.", epilog=EXAMPLE)


@app.callback()
def agent() -> None:
    """A deployed agent: its service over HTTP."""


@app.command(epilog=EXAMPLE)
def serve(
    db: Annotated[Path, typer.Option("--db", help="The agent's file; made if there is none.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="TOML: [agent] algorithm, dim, ...; [service] limits. Needed for a new agent.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; other than this machine itself needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8484,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help="File with the bearer token; else it is in FEDBANDITS_AGENT_TOKEN.", show_default=False
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user of this machine in; only where others cannot reach it.")
    ] = False,
) -> None:
    """Serve an agent over HTTP: decisions, rewards, status, metrics. Stops in good order on SIGTERM and Ctrl-C.

    Speaks plain HTTP: put a reverse proxy with TLS in front of it before others use it.
    """
    from fedbandits.cli.console import complain, note
    from fedbandits.cli.extras import require
    from fedbandits.deploy.errors import AgentError, SettingsError
    from fedbandits.deploy.http.access import check_exposure, find_token, resolve
    from fedbandits.deploy.http.configuration import Configuration, load_configuration

    require("deploy", "fastapi", "uvicorn", "prometheus_client")
    token = find_token(token_file)
    address = resolve(host, port)
    check_exposure(address, token, no_token=no_token)
    configuration = Configuration() if config is None else load_configuration(config)

    from fedbandits.deploy.http.service import listen, serve

    with listen(address) as listener:
        url = address.url(listener.getsockname()[1])
        try:
            with configuration.open(db) as opened:
                serve(opened, configuration.limits, token, listener, ready=lambda: note(f"serving {db} on {url}"))
        except SettingsError:
            raise
        except AgentError as error:
            raise typer.Exit(complain(str(error), code=1)) from None
        except KeyboardInterrupt:  # while the agent is opened; afterwards signals are the server's
            raise typer.Exit(130) from None
    note("stopped; the agent is closed")
