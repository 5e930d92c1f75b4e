"""Results as the command that gives them again."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES
from fedbandits.environments import ENVIRONMENTS
from fedbandits.graphs.topologies import NETWORKS
from fedbandits.transport.attack import ATTACKS

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


def command_of(results: Results) -> str | None:
    """What gives `results` again: the command noted in their settings, or that of a comparison."""
    return results.settings.get("command") or compare_command(results.settings)


def compare_command(settings: Mapping[str, Any]) -> str | None:
    """The `fedbandits compare` that was run, parameters at their defaults left out; None if it was something else."""
    seeds = settings.get("seeds")
    if not {"environment", "algorithms", "run"} <= settings.keys() or seeds != list(range(len(seeds or ()))):
        return None
    if settings.get("sweep") is not None:
        return None
    parts: list[tuple[str, Mapping[str, Any], Mapping[str, type[Any]], str]] = [
        ("-a", described, ALGORITHMS, label) for label, described in settings["algorithms"].items()
    ]
    parts += [("-e", settings["environment"], ENVIRONMENTS, "")]
    parts += [("-n", settings["network"], NETWORKS, "")] if "network" in settings else []
    parts += [("--attack", settings["attack"], ATTACKS, "")] if "attack" in settings else []
    if not all(_has_a_word(described, registry) for _, described, registry, _ in parts):
        return None
    words = ["fedbandits", "compare"]
    for option, described, registry, label in parts:
        words += [option, spec(described, registry, label)]
    words += ["--horizon", str(settings["run"]["horizon"]), "--seeds", str(len(seeds))]
    return shlex.join(words)


def spec(described: Mapping[str, Any], registry: Mapping[str, type[Any]], label: str = "") -> str:
    """`label=name:key=value,...|stage:...` of a description that holds a name, parameters and stages.

    A label with a bar in it is one that was made up for an algorithm with stages, and is made up again.
    """
    words = [_word(described, registry), *(_word(stage, STAGES) for stage in described.get(_STAGES, []))]
    return (f"{label}=" if label and label != described["name"] and "|" not in label else "") + "|".join(words)


def _word(described: Mapping[str, Any], registry: Mapping[str, type[Any]]) -> str:
    name = str(described["name"])
    defaults = {item.name: item.default for item in dataclasses.fields(registry[name])}
    given = {key: value for key, value in _own(described).items() if value != defaults.get(key)}
    return name + (":" + ",".join(f"{key}={_value(value)}" for key, value in given.items()) if given else "")


def _has_a_word(described: Mapping[str, Any], registry: Mapping[str, type[Any]]) -> bool:
    """Whether it can be named on a command line: what is in no catalogue cannot, nor can lists, as of links."""
    return (
        described["name"] in registry
        and not any(isinstance(value, list) for value in _own(described).values())
        and all(_has_a_word(stage, STAGES) for stage in described.get(_STAGES, []))
    )


_STAGES = "through"


def _own(described: Mapping[str, Any]) -> dict[str, Any]:
    """Its parameters, without its name and what it goes through."""
    return {key: value for key, value in described.items() if key not in ("name", _STAGES)}


def _value(value: Any) -> str:
    return "none" if value is None else str(value)
