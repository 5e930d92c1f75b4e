"""Catalogue entries as plain dictionaries, and as cards on a terminal of 80 columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES
from fedbandits.contract.catalogue import ConfigError, Registry, hint
from fedbandits.contract.description import plain
from fedbandits.environments import ENVIRONMENTS
from fedbandits.experiments import load_experiment, shipped_experiments
from fedbandits.experiments.sizes import WHOLE
from fedbandits.graphs.topologies import NETWORKS

if TYPE_CHECKING:
    from fedbandits.cli.catalogue import Kind


def entries(kind: Kind) -> list[dict[str, Any]]:
    """All entries of one kind, parameters with their defaults included."""
    listing, describe = _KINDS[kind]
    registry = listing()
    found = registry.importable() if isinstance(registry, Registry) else registry
    return [describe(name, each) for name, each in found.items()]


def entry(kind: Kind, name: str) -> dict[str, Any]:
    """One entry of one kind; raises `ConfigError` where there is none of that name."""
    listing, describe = _KINDS[kind]
    registry = listing()
    if name not in registry:
        raise ConfigError(f"list: there is no {name!r} among the {kind}; {hint(name, list(registry))}")
    return describe(name, registry[name])


def overview(listed: Sequence[dict[str, Any]], width: int) -> Table:
    """A line for each entry, at most `width` wide: its name, what sort it is, and a clause about it."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    columns = [key for key in ("name", "family", "topology") if key in listed[0]]
    widths = [max(len(each[key]) for each in listed) for key in columns]
    left = max(width - sum(widths) - 2 * len(columns), 20)
    for key in columns:
        lines.add_column(style="bold cyan" if key == "name" else "dim", no_wrap=True)
    lines.add_column(no_wrap=True)
    for each in listed:
        [clause] = (each[key] for key in ("talks", "summary", "title") if key in each)
        lines.add_row(*(each[key] for key in columns), Text(shorten(clause, left, placeholder=" …")))
    return lines


def card(entry: dict[str, Any]) -> Group:
    """The name, then a line for each property."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", min_width=10)
    lines.add_column(overflow="fold")
    for key, value in entry.items():
        if key != "name":
            lines.add_row(key, Text(_shown(value)))
    return Group(Text(entry["name"], style="bold cyan"), lines, Text())


def _algorithm(name: str, kind: type[Any]) -> dict[str, Any]:
    about = kind.about
    return {
        "name": name,
        "family": about.family,
        "topology": about.topology,
        "talks": about.talks,
        "wire": about.wire,
        "private": about.private,
        "guarantee": about.guarantee,
        "source": about.source,
        "parameters": _parameters(kind),
    }


def _environment(name: str, kind: type[Any]) -> dict[str, Any]:
    return {"name": name, "family": kind.about.family} | _other(name, kind)


def _other(name: str, kind: type[Any]) -> dict[str, Any]:
    about = kind.about
    return {"name": name, "summary": about.summary, "source": about.source, "parameters": _parameters(kind)}


def _experiment(name: str, path: Path) -> dict[str, Any]:
    experiment = load_experiment(path)
    return {
        "name": name,
        "title": experiment.title,
        "source": experiment.source,
        "algorithms": list(experiment.algorithms),
        "claims": [claim.text for claim in experiment.claims],
        "full": {
            path: f"{len(value)} of its own" if path in WHOLE else value
            for path, value in (experiment.full or {}).items()
            if path != "description"
        },
    }


_KINDS: dict[str, tuple[Callable[[], Mapping[str, Any]], Callable[[str, Any], dict[str, Any]]]] = {
    "algorithms": (lambda: ALGORITHMS, _algorithm),
    "stages": (lambda: STAGES, _other),
    "environments": (lambda: ENVIRONMENTS, _environment),
    "networks": (lambda: NETWORKS, _other),
    "experiments": (shipped_experiments, _experiment),
}
"""What there is of each kind, by name, and how an entry is told."""


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
