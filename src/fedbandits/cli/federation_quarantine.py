"""`fedbandits federation quarantine`: conversations that the server could not complete."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from fedbandits.cli.options import AsJson

app = typer.Typer(no_args_is_help=True, help="Conversations that were spoilt by what somebody sent.")

Directory = Annotated[Path, typer.Argument(help="Where federation.json and server.db are.")]
Number = Annotated[int, typer.Argument(help="The number that `list` shows.", min=1)]


def add_to(group: typer.Typer) -> None:
    """Add the commands to a group."""
    group.add_typer(app, name="quarantine")


@app.command("list")
def list_(directory: Directory, as_json: AsJson = False) -> None:
    """List conversations that could not be completed, and whose replies did it."""
    from rich.text import Text

    from fedbandits.cli.console import note, out, print_json

    found = _sifting().entries(directory)
    if as_json:
        print_json(found)
        return
    if not found:
        note("nothing is in quarantine")
    for entry in found:
        words = [str(entry["id"]), entry["at"], entry["state"], _blamed(entry), entry["error"]]
        out().print(Text("  ".join(words)), soft_wrap=True)


@app.command()
def show(directory: Directory, number: Number, as_json: AsJson = False) -> None:
    """Show what was said in one of them: senders, fields, norms."""
    from rich.text import Text

    from fedbandits.cli.console import out, print_facts, print_json

    found = _sifting().entry(directory, number)
    if as_json:
        print_json(found)
        return
    replies = found.pop("replies")
    print_facts(found, as_json=False)
    for reply in replies:
        mark = "guilty" if reply["guilty"] else "      "
        out().print(Text(f"{mark}  agent {reply['agent']}, {reply['answers']}, {reply['bytes']} bytes"), soft_wrap=True)
        for line in _fields(reply):
            out().print(Text(f"          {line}"), soft_wrap=True)


@app.command()
def drop(directory: Directory, number: Number) -> None:
    """Give what was handed over back for good; an agent that was left out takes part again."""
    print(_sifting().drop(directory, number))


@app.command()
def retry(directory: Directory, number: Number) -> None:
    """Take what was handed over up in the next conversation, as after an update of the server."""
    print(_sifting().retry(directory, number))


def _blamed(entry: dict[str, Any]) -> str:
    if not entry["guilty"]:
        return "nobody"
    named = "agent " + ", ".join(map(str, entry["guilty"]))
    return named if entry["sure"] else f"perhaps {named}"


def _fields(reply: dict[str, Any]) -> list[str]:
    if "unreadable" in reply:
        return [f"unreadable: {reply['unreadable']}"]
    return [
        f"{reply['kind']}.{name} {'x'.join(map(str, held['shape'])) or '1'}: norm {held['norm']:g}, "
        f"largest {held['largest']:g}, {held['not_finite']} not finite"
        for name, held in reply["fields"].items()
    ]


def _sifting() -> ModuleType:
    from fedbandits.contract.extras import require

    require("deploy", "flwr", "cryptography")
    from fedbandits.deploy.flower.operating import sifting

    return sifting
