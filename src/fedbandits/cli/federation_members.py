"""`fedbandits federation influence`, `expel` and `readmit`: who has contributed what, and who may."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fedbandits.cli.options import AsJson

Directory = Annotated[Path, typer.Argument(help="Where federation.json and server.db are.")]
Identity = Annotated[int, typer.Argument(help="The agent.", min=0)]


def add_to(app: typer.Typer) -> None:
    """Add the commands to a group."""
    for command in (influence, expel, readmit):
        app.command()(command)


def influence(directory: Directory, as_json: AsJson = False) -> None:
    """Show what each agent has contributed, and how far it is from the others (near 1: as noise makes it)."""
    import time

    from rich.table import Table

    from fedbandits.cli.console import note, out, print_json

    found = _membership().influence(directory)
    if as_json:
        print_json([dataclasses.asdict(one) for one in found])
        return
    if not found:
        note("nobody has been seen yet")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("agent", "share", "distance", "accepted", "rejected", "quarantined", "last seen", "standing"):
        table.add_column(column, justify="left" if column == "standing" else "right")
    for one in found:
        table.add_row(
            str(one.agent),
            "-" if one.share is None else f"{one.share:.1%}",
            "-" if one.distance is None else f"{one.distance:.3g}",
            str(one.accepted),
            str(one.rejected),
            str(one.quarantined),
            "-" if one.last_seen is None else f"{max(0.0, time.time() - one.last_seen):.0f} s ago",
            one.standing,
        )
    out().print(table)


def expel(directory: Directory, identity: Identity) -> None:
    """Do not let an agent in any more, and take what it has contributed out of the pool where statistics add up."""
    print(_membership().expel(directory, identity))


def readmit(directory: Directory, identity: Identity) -> None:
    """Let an agent in again that was expelled."""
    print(_membership().readmit(directory, identity))


def _membership() -> ModuleType:
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.operating import membership

    return membership
