"""Sums over the members of a clique, each of whom tells all of its own again and again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import DType
from fedbandits.linalg.jit import jit
from fedbandits.models.latest import Latest
from fedbandits.models.statistics import Statistics


class CliqueSums(Stateful):
    """The latest sums of every other member of an agent's clique, phase by phase (`models.latest`).

    What is told is a member's sum so far: it takes the place of what that member told before, so that nothing counts
    twice, and what was lost is made up for by what comes after it.
    """

    def __init__(self, place: Place, cliques: IntArray, identities: IntArray, phases: int, dim: int) -> None:
        self._cliques = cliques
        self._identities = identities
        fields: dict[str, tuple[tuple[int, ...], DType]] = {
            "gram": ((dim, dim), "f8"),
            "moment": ((dim,), "f8"),
            "count": ((), "f8"),
        }
        self._tables = [Latest(place, identities, fields, cliques) for _ in range(phases)]

    def heard(self, inbox: Inbox) -> tuple[IntArray, IntArray]:
        """The letters of `inbox` that come from an agent's own clique: to whom, and which row of what was said."""
        own = self._cliques[self._identities[inbox.to]] == self._cliques[inbox.said.who[inbox.row]]
        return inbox.to[own], inbox.row[own]

    def table(self, phase: int) -> Latest:
        """What was heard of one phase."""
        return self._tables[phase]

    def take(self, inbox: Inbox, to: IntArray, row: IntArray, phase: IntArray) -> None:
        """Take in letters (e,) that were `heard`; `phase` (rows,) is what each row of what was said is about."""
        arrays = inbox.said.arrays
        told = {"gram": arrays["gram"], "moment": arrays["moment"]}
        told["count"] = arrays.get("count", np.zeros(len(inbox.born)))
        for one in np.unique(phase[row]):
            of = phase[row] == one
            self._tables[one].take(Inbox(inbox.said, inbox.born, to[of], row[of]), **told)

    def pooled(self, rows: IntArray, own: Statistics) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(w, d, d), (w, d), (w,) the sums over each row's clique, `own` being those of all agents here, row by row.

        In the order of the members' identities, so that agents that have heard the same have the same, to the last bit.
        """
        found = Statistics(len(rows), own.gram.shape[1])
        who, phases = np.divmod(rows, len(self._tables))
        for one in np.unique(phases):
            places = np.flatnonzero(phases == one)
            table = self._tables[one]
            for name, total in zip(("gram", "moment", "count"), found, strict=True):
                mine = getattr(own, name)
                width = int(np.prod(mine.shape[1:]))
                _add_up(
                    table.starts,
                    table.origins,
                    self._identities,
                    who[places],
                    places,
                    table.kept[name].reshape(-1, width),
                    mine[rows[places]].reshape(-1, width),
                    total.reshape(-1, width),
                )
        return found.gram, found.moment, found.count

    def _arrays(self, prefix: str = "") -> State:
        parts = (table._arrays(f"{prefix}{one}.") for one, table in enumerate(self._tables))
        return {name: array for part in parts for name, array in part.items()}

    def _share(self, agent: int, prefix: str) -> State:
        parts = (table._share(agent, f"{prefix}{one}.") for one, table in enumerate(self._tables))
        return {name: array for part in parts for name, array in part.items()}

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        for one, table in enumerate(self._tables):
            table._take(state, f"{prefix}{one}.")


@jit
def _add_up(
    starts: IntArray,
    origins: IntArray,
    identities: IntArray,
    who: IntArray,
    places: IntArray,
    kept: FloatArray,
    own: FloatArray,
    totals: FloatArray,
) -> None:
    """Add to `totals[places[i]]` what `who[i]` keeps of others, and `own[i]` in its turn."""
    for i in range(len(who)):
        first, last = starts[who[i]], starts[who[i] + 1]
        turn = first
        while turn < last and origins[turn] < identities[who[i]]:
            turn += 1
        for k in range(own.shape[1]):
            total = totals[places[i], k]
            for e in range(first, turn):
                total += kept[e, k]
            total += own[i, k]
            for e in range(turn, last):
                total += kept[e, k]
            totals[places[i], k] = total
