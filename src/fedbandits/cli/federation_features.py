"""`fedbandits federation migrate`: the server of agents whose features come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(group: typer.Typer) -> None:
    """Add the command to a group."""
    group.command()(migrate)


def migrate(
    directory: Annotated[Path, typer.Argument(help="Where federation.json and server.db are; stop the server.")],
    add: Annotated[
        str | None, typer.Option("--add-feature", help="A new feature, the last of all.", show_default=False)
    ] = None,
    drop: Annotated[
        str | None, typer.Option("--drop-feature", help="A feature to be without.", show_default=False)
    ] = None,
    names: Annotated[
        str | None,
        typer.Option("--name-features", help="Names for features that have none: a,b,c.", show_default=False),
    ] = None,
) -> None:
    """Change the features that the server's agents have, after they have changed them: `fedbandits agent migrate`.

    Agents that have other features are turned away until they are migrated, and lose nothing meanwhile.
    """
    from fedbandits.cli.console import note
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.operating.migration import migrate_server
    from fedbandits.deploy.migrating import Change

    change = Change(None if names is None else tuple(names.split(",")), add, drop)
    print(f"features: {', '.join(migrate_server(directory, change))}")
    note("federation.json.before and server.db.before are the files as they were")
