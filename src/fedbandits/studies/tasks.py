"""One simulation to be run, and what its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.description import describe
from fedbandits.contract.world import Environment
from fedbandits.simulation.options import RunOptions
from fedbandits.studies.provenance import digest_of_code


@dataclass(frozen=True, slots=True)
class Task:
    """One simulation: an algorithm under a label, at one point of a sweep, with one seed."""

    label: str
    algorithm: Algorithm
    environment: Environment
    horizon: int
    seed: int
    point: Mapping[str, Any] = field(default_factory=dict)
    """Sweep coordinates: column name to value."""
    points: int | None = 200
    """How many evenly spaced steps the result keeps; None keeps every step."""
    options: RunOptions = field(default_factory=RunOptions)
    portrayed: bool = True
    """Whether the result keeps the run's portrait, for pictures of it; nothing else depends on it."""

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value}" for name, value in self.point.items())
        return f"{self.label}{f' at {where}' if where else ''}, seed {self.seed}"


def parts_of(task: Task) -> list[object]:
    """What `task` is made of and somebody may have written: algorithm, environment, network and classes of gauges."""
    network = task.options.network
    return [task.algorithm, task.environment, *([] if network is None else [network]), *task.options.gauges]


def code(task: Task) -> str:
    """A digest of the code that the result of `task` depends on."""
    return digest_of_code(*parts_of(task))


def fingerprint(task: Task) -> str:
    """A digest of everything that the figures of `task` depend on, apart from code."""
    from fedbandits import __version__

    options = task.options
    basis = {
        "version": __version__,
        "algorithm": describe(task.algorithm),
        "environment": describe(task.environment),
        "horizon": task.horizon,
        "seed": task.seed,
        "points": task.points,
        "coverage": options.coverage,
    }
    # only what is there, so that results from before there were networks, bounds and other wires are still known
    if options.network is not None:
        basis["network"] = describe(options.network)
    if options.theory:
        basis["theory"] = True
    if options.wire is not None and options.wire.packed:
        basis["packed"] = True
    if options.attack is not None:
        basis["attack"] = describe(options.attack)
    if options.gauges:
        basis["gauges"] = [f"{gauge.__module__}.{gauge.__qualname__}" for gauge in options.gauges]
    return hashlib.sha256(json.dumps(basis, sort_keys=True).encode()).hexdigest()
