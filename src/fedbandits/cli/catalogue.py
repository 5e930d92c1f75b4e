"""`fedbandits list`: what there is."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import typer
from rich.text import Text

from fedbandits.cli.options import AsJson

NAME = "list"
EXAMPLE = "Example: [bold]fedbandits list algorithms dislinucb[/bold], or [bold]fedbandits list --json[/bold]"

Kind = Literal["algorithms", "stages", "environments", "networks", "experiments"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def command(
    what: Annotated[str | None, typer.Argument(metavar=f"[{'|'.join(KINDS)}]", help="Everything if not given.")] = None,
    name: Annotated[str | None, typer.Argument(help="Only this one, in detail.", show_default=False)] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Everything that is known of each, not just a line.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The catalogue: a line for each, and for one of them everything that is known.

    Of an algorithm: when it talks, what crosses the wire, what is guaranteed, and its parameters.
    """
    from fedbandits.cli.cards import card, entries, entry, overview
    from fedbandits.cli.console import out, print_json
    from fedbandits.contract.catalogue import ConfigError

    chosen = [kind for kind in KINDS if what in (None, kind)]
    if not chosen:
        meant = [kind for kind in KINDS if any(each["name"] == what for each in entries(kind))]
        fix = f"`fedbandits list {meant[0]} {what}` shows it" if meant else f"choose one of {', '.join(KINDS)}"
        raise ConfigError(f"list: there are no {what!r}; {fix}")
    if name is not None:
        found: dict[str, list[dict[str, Any]]] = {kind: [entry(kind, name)] for kind in chosen}
    else:
        found = {kind: entries(kind) for kind in chosen}
    if as_json:
        print_json(found if what is None else found[what])
        return
    console = out()
    for kind, listed in found.items():
        console.print(f"[bold underline]{kind}[/]")
        if name is None and not details:
            console.print(overview(listed, console.width))
        else:
            console.print(Text())
            for each in listed:
                console.print(card(each))
    if name is None and not details:
        large = [each["name"] for each in found.get("experiments", []) if each["full"]]
        if large:
            console.print(Text(f"Also at full size, by fedbandits run NAME --full: {', '.join(large)}", style="dim"))
        console.print(Text(f"More: fedbandits list {what or 'algorithms'} NAME, or --details for all.", style="dim"))
