"""What is said of raw observations, and the limits that honest ones keep to."""

from __future__ import annotations

from collections.abc import Mapping

from fedbandits.contract.arrays import Array
from fedbandits.contract.facts import Norms
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Adds, Bound, Free, Ragged, Utterance, WireField
from fedbandits.models.limits import arm_square, reward
from fedbandits.models.sharing import counting


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

DICTIONARY = WireField("dictionary", (Free("entries"), "d"), raw=True)
"""Points that somebody has observed."""


def sums(adds: Adds, *, pooled: bool = False) -> tuple[WireField, ...]:
    """sum z z^T and sum y z in terms of a dictionary, and how many observations they are over."""
    entries = Free("entries")
    return (
        WireField(
            "gram",
            (entries, entries),
            symmetric=True,
            semidefinite=True,
            adds=adds,
            pooled=pooled,
            bound=Bound(arm_square),
        ),
        WireField("moment", (entries,), adds=adds, pooled=pooled, bound=Bound(reward, within="gram")),
        counting(adds=adds, pooled=pooled, optional=False),
    )


DRAW = Utterance("draw", "down")
"""A synchronisation begins, about what was observed so far: send points for a dictionary."""
DRAWN = Utterance("drawn", "up", (WireField("points", (Ragged("points"), "d"), raw=True, bound=Bound(arm)),))
"""Points that an agent has observed, drawn by how little is known of them."""
EMBED = Utterance("embed", "down", (DICTIONARY,))
EMBEDDED = Utterance("embedded", "up", sums("query", pooled=True))
"""The sums over all of an agent's observations."""
FITTED = Utterance("fitted", "down", (DICTIONARY, *sums("total")))
"""The result: a dictionary, and everybody's sums in terms of it."""
