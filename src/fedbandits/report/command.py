"""Results as the command that gives them again."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

from fedbandits.algorithms import ALGORITHMS
from fedbandits.environments import ENVIRONMENTS


def compare_command(settings: Mapping[str, Any]) -> str | None:
    """The `fedbandits compare` that was run, parameters at their defaults left out; None if it was something else."""
    seeds = settings.get("seeds")
    if not {"environment", "algorithms", "run"} <= settings.keys() or seeds != list(range(len(seeds or ()))):
        return None
    if settings.get("sweep") is not None:
        return None
    words = ["fedbandits", "compare"]
    for label, described in settings["algorithms"].items():
        words += ["-a", spec(described, ALGORITHMS, label)]
    words += ["-e", spec(settings["environment"], ENVIRONMENTS)]
    words += ["--horizon", str(settings["run"]["horizon"]), "--seeds", str(len(seeds))]
    return shlex.join(words)


def spec(described: Mapping[str, Any], registry: Mapping[str, type[Any]], label: str = "") -> str:
    """`label=name:key=value,...` of a description that holds a name and parameters."""
    name = described["name"]
    defaults = {item.name: item.default for item in dataclasses.fields(registry[name])}
    given = {key: value for key, value in described.items() if key != "name" and value != defaults.get(key)}
    head = f"{label}={name}" if label and label != name else name
    return head + (":" + ",".join(f"{key}={_value(value)}" for key, value in given.items()) if given else "")


def _value(value: Any) -> str:
    return "none" if value is None else str(value)
