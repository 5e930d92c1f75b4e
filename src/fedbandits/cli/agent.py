"""`fedbandits agent`: a deployed agent over HTTP, and what its operator does with its file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedbandits.cli import agent_records
from fedbandits.cli.options import AgentFile, AsJson

NAME = "agent"
EXAMPLE = "Example: [bold]fedbandits agent serve agent.db --config agent.toml --token-file token[/bold]"

app = typer.Typer(no_args_is_help=True, help="A deployed agent: its service over HTTP, its upkeep.", epilog=EXAMPLE)


class OfAnAgent(TyperCommand):
    """A command whose first argument is an agent's file, which may also be written as `--db FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put what `--db` names in front."""
        for at, word in enumerate(args):
            option, equals, name = word.partition("=")
            if word == "--":
                break
            if option == "--db" and (equals or at + 1 < len(args)):
                rest = args[at + 1 :] if equals else args[at + 2 :]
                args = [name if equals else args[at + 1], *args[:at], *rest]
                break
        return super().parse_args(ctx, args)


@app.callback()
def agent() -> None:
    """A deployed agent: its service over HTTP, its upkeep."""


@app.command(cls=OfAnAgent, epilog=EXAMPLE)
def serve(
    db: Annotated[Path, typer.Argument(metavar="DB", help="The agent's file; made if there is none.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help=r"TOML: \[agent] algorithm, dim, ...; \[facts] noise, ...; \[service] limits. Needed for a new agent.",
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
    from fedbandits.cli.console import note
    from fedbandits.contract.extras import require
    from fedbandits.deploy.http.access import check_exposure, find_token, resolve
    from fedbandits.deploy.http.configuration import Configuration, load_configuration

    require("deploy", "fastapi", "uvicorn", "prometheus_client")
    token = find_token(token_file)
    address = resolve(host, port)
    check_exposure(address, token, no_token=no_token)
    configuration = Configuration() if config is None else load_configuration(config)

    from fedbandits.deploy.http.service import listen, serve
    from fedbandits.linalg import compiling

    with listen(address) as listener, compiling.telling(compiling.once(note)):
        url = address.url(listener.getsockname()[1])
        try:
            with _complaining(), configuration.open(db) as opened:
                serve(opened, configuration.limits, token, listener, ready=lambda: note(f"serving {db} on {url}"))
        except KeyboardInterrupt:  # while the agent is opened; afterwards signals are the server's
            raise typer.Exit(130) from None
    note("stopped; the agent is closed")


@app.command(cls=OfAnAgent)
def status(db: AgentFile, as_json: AsJson = False) -> None:
    """Show how an agent is getting on."""
    from fedbandits.cli.console import print_facts
    from fedbandits.deploy.embedded.agent import Agent

    with _complaining(), Agent.open(db, warm=False) as opened:
        settings, standing = opened.settings, opened.status()
        found = standing.plain()
        moment = found["synchronised_at"]
        told = {"algorithm": opened.algorithm.about.name, "identity": settings.identity, "agents": settings.agents}
        facts = told | found | {"synchronised_at": None if moment is None else moment.isoformat()}
        if not as_json:
            nested = {"budget": standing.budget, "episodes": standing.episodes}
            facts |= {name: None if part is None else str(part) for name, part in nested.items()}
    print_facts(facts, as_json=as_json)


@app.command(cls=OfAnAgent)
def check(db: AgentFile, as_json: AsJson = False) -> None:
    """Read all of an agent's file, or a server's, and find what is damaged; says what is whole. Changes nothing."""
    from fedbandits.cli.console import complain, note
    from fedbandits.deploy.check import check_file

    with _complaining():
        report = check_file(db)
    if as_json:
        print(json.dumps(dataclasses.asdict(report), indent=2))
    else:
        for finding in report.findings:
            complain(f"{db}: {finding}", code=1)
        note(f"{db}: whole: {', '.join(report.whole) or 'nothing'}")
    if report.findings:
        raise typer.Exit(1)


@app.command(cls=OfAnAgent)
def backup(
    db: AgentFile,
    copy: Annotated[Path, typer.Argument(help="A new file.")],
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Copy a damaged log as far as it can be read; the rest is lost.")
    ] = False,
) -> None:
    """Copy an agent's file, or a server's, while it is in use. See the documentation before you restore one."""
    from fedbandits.deploy.backup import back_up

    with _complaining():
        back_up(db, copy, salvage=salvage)


@app.command(cls=OfAnAgent)
def forget(
    db: AgentFile,
    before: Annotated[
        datetime | None,
        typer.Option(help="In UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], show_default=False),
    ] = None,
    who: Annotated[str | None, typer.Option(help="The person that decisions were about.", show_default=False)] = None,
) -> None:
    """Remove the raw observations of all decisions taken before a time, or about a person; what was learned from them
    stays.
    """
    from fedbandits.deploy.embedded.agent import Agent

    with _complaining(), Agent.open(db, warm=False) as opened:
        limit = None if before is None else before.replace(tzinfo=UTC)
        print(f"{opened.forget(limit, who=who)} decisions forgotten")


app.command("log", cls=OfAnAgent)(agent_records.log)
app.command("import", cls=OfAnAgent)(agent_records.import_)
app.command("retire", cls=OfAnAgent)(agent_records.retire)
app.command("migrate", cls=OfAnAgent)(agent_records.migrate)


@contextmanager
def _complaining() -> Iterator[None]:
    """What an agent refuses ends the command with one line; mistakes in settings are the caller's to tell."""
    from fedbandits.cli.console import complain
    from fedbandits.deploy.errors import AgentError, SettingsError

    try:
        yield
    except SettingsError:
        raise
    except AgentError as error:
        raise typer.Exit(complain(str(error), code=1)) from None
