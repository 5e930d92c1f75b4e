"""`fedbandits list`: what there is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from fedbandits.cli.options import AsJson

NAME = "list"
EXAMPLE = "Example: [bold]fedbandits list algorithms dislinucb[/bold], or [bold]fedbandits list --json[/bold]"

Kind = Literal["algorithms", "environments", "networks", "experiments"]
KINDS: tuple[Kind, ...] = ("algorithms", "environments", "networks", "experiments")


def command(
    what: Annotated[str | None, typer.Argument(metavar=f"[{'|'.join(KINDS)}]", help="Everything if not given.")] = None,
    name: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """The catalogue: when an algorithm talks, what crosses the wire, what is guaranteed, and its parameters."""
    from fedbandits.cli.cards import card, entries
    from fedbandits.cli.console import out, print_json
    from fedbandits.contract.catalogue import ConfigError

    if what is not None and what not in KINDS:
        raise ConfigError(f"list: there are no {what!r}; choose one of {', '.join(KINDS)}")
    found: dict[str, list[dict[str, Any]]] = {kind: entries(kind) for kind in KINDS if what in (None, kind)}
    if name is not None and what is not None:
        found[what] = [entry for entry in found[what] if entry["name"] == name]
        if not found[what]:
            known = ", ".join(entry["name"] for entry in entries(what))
            raise ConfigError(f"list: there is no {name!r} among the {what}; known are: {known}")
    if as_json:
        print_json(found if what is None else found[what])
        return
    console = out()
    for kind, listed in found.items():
        console.print(f"[bold underline]{kind}[/]\n")
        for entry in listed:
            console.print(card(entry))
