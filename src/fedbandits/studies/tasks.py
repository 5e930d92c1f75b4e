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
from fedbandits.graphs.network import Network
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
    coverage: bool = False
    """Whether to check confidence ellipsoids against the truth."""
    network: Network | None = None
    """The graph on which agents without a server talk."""
    theory: bool = False
    """Whether to evaluate what theory says of the regret."""

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value}" for name, value in self.point.items())
        return f"{self.label}{f' at {where}' if where else ''}, seed {self.seed}"


def code(task: Task) -> str:
    """A digest of the code that the result of `task` depends on."""
    parts = (task.algorithm, task.environment, task.network)
    return digest_of_code(*(part for part in parts if part is not None))


def fingerprint(task: Task) -> str:
    """A digest of everything the result of `task` depends on, apart from code."""
    from fedbandits import __version__

    basis = {
        "version": __version__,
        "algorithm": describe(task.algorithm),
        "environment": describe(task.environment),
        "horizon": task.horizon,
        "seed": task.seed,
        "points": task.points,
        "coverage": task.coverage,
    }
    # only what is there, so that results from before there were networks and bounds are still known
    if task.network is not None:
        basis["network"] = describe(task.network)
    if task.theory:
        basis["theory"] = True
    return hashlib.sha256(json.dumps(basis, sort_keys=True).encode()).hexdigest()
