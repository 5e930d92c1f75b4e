"""What is said of raw observations, and the limits that honest ones keep to."""

from __future__ import annotations

from collections.abc import Mapping

from fedbandits.contract.arrays import Array
from fedbandits.contract.facts import Norms
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Adds, Bound, Ragged, Utterance, WireField
from fedbandits.models.limits import reward


def arm(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L, the largest norm of an arm itself, whatever models see of it."""
    return problem.get(Norms, Norms()).arms


def observations(adds: Adds | None = None) -> tuple[WireField, WireField]:
    """Raw points and their rewards, as many as each agent has."""
    many = Ragged("observations")
    return (
        WireField("points", (many, "d"), raw=True, adds=adds, bound=Bound(arm)),
        WireField("rewards", (many,), raw=True, adds=adds, bound=Bound(reward)),
    )


OBSERVED = Utterance("observed", "up", observations(adds="increment"))
"""All that an agent has observed since its last upload, as it was observed."""
POOLED = Utterance("pooled", "down", observations(adds="increment"))
"""What follows in everybody's pool, as it was observed, and by whom is not said."""
