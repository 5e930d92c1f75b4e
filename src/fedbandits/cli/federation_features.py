"""`fedbandits federation migrate`: the server of agents whose features come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import AddFeature, DropFeature, NameFeatures


def add_to(group: typer.Typer) -> None:
    """Add the command to a group."""
    group.command()(migrate)


def migrate(
    directory: Annotated[Path, typer.Argument(help="Where federation.json and server.db are; stop the server.")],
    add: AddFeature = None,
    drop: DropFeature = None,
    names: NameFeatures = None,
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
