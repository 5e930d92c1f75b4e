"""Catalogue entries as plain dictionaries, and as cards on a terminal of 80 columns."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.description import plain
from fedbandits.environments import ENVIRONMENTS
from fedbandits.experiments import load_experiment, shipped_experiments
from fedbandits.graphs.topologies import NETWORKS

if TYPE_CHECKING:
    from fedbandits.cli.catalogue import Kind


def entries(kind: Kind) -> list[dict[str, Any]]:
    """All entries of one kind, parameters with their defaults included."""
    listing = {
        "algorithms": _algorithms,
        "environments": _environments,
        "networks": _networks,
        "experiments": _experiments,
    }
    return listing[kind]()


def card(entry: dict[str, Any]) -> Group:
    """The name, then a line for each property."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", min_width=10)
    lines.add_column(overflow="fold")
    for key, value in entry.items():
        if key != "name":
            lines.add_row(key, Text(_shown(value)))
    return Group(Text(entry["name"], style="bold cyan"), lines, Text())


def _algorithms() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "family": kind.about.family,
            "topology": kind.about.topology,
            "talks": kind.about.talks,
            "wire": kind.about.wire,
            "private": kind.about.private,
            "guarantee": kind.about.guarantee,
            "source": kind.about.source,
            "parameters": _parameters(kind),
        }
        for name, kind in ALGORITHMS.items()
    ]


def _environments() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "family": kind.about.family,
            "summary": kind.about.summary,
            "source": kind.about.source,
            "parameters": _parameters(kind),
        }
        for name, kind in ENVIRONMENTS.items()
    ]


def _networks() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "summary": kind.about.summary,
            "source": kind.about.source,
            "parameters": _parameters(kind),
        }
        for name, kind in NETWORKS.items()
    ]


def _experiments() -> list[dict[str, Any]]:
    listed = []
    for name in shipped_experiments():
        experiment = load_experiment(name)
        listed.append(
            {
                "name": name,
                "title": experiment.title,
                "source": experiment.source,
                "algorithms": list(experiment.algorithms),
                "claims": [claim.text for claim in experiment.claims],
            }
        )
    return listed


def _parameters(kind: type[Any]) -> dict[str, Any]:
    return {item.name: _default(item) for item in dataclasses.fields(kind) if item.init}


def _default(item: dataclasses.Field[Any]) -> Any:
    required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    return "required" if required else plain(item.default)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={'none' if item is None else item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return "\n".join(f"· {item}" for item in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
