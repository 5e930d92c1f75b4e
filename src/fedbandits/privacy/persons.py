"""How many observations of each person were used, so that one person's share of the data is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, IntArray, State
from fedbandits.contract.state import Stateful


class PersonCounts(Stateful):
    """For each of n agents and each person: observations used so far. `table` (m, 3) has their rows (agent, person,
    used).

    Part of the agents' snapshot: whoever forgets it uses persons' data anew.
    """

    keeps: ClassVar[tuple[str, ...]] = ("table",)
    resizes: ClassVar[frozenset[str]] = frozenset({"table"})

    def __init__(self, n: int) -> None:
        self._n = n
        self._used: dict[tuple[int, int], int] = {}

    @property
    def table(self) -> IntArray:
        """(m, 3), in the order of agents and persons."""
        rows = [(*key, used) for key, used in sorted(self._used.items())]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def admit(self, who: IntArray, persons: IntArray, most: int) -> BoolArray:
        """(w,) whose observation is one of the first `most` of its person at that agent; those are counted."""
        admitted = np.zeros(len(who), dtype=np.bool_)
        for row, key in enumerate(zip(who.tolist(), persons.tolist(), strict=True)):
            used = self._used.get(key, 0)
            if used < most:
                self._used[key] = used + 1
                admitted[row] = True
        return admitted

    def _share(self, agent: int, prefix: str) -> State:
        own = self.table[self.table[:, 0] == agent]
        own[:, 0] = 0
        return {prefix + "table": own}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        table = state[prefix + "table"]
        known = table.shape[1:] == (3,) and len(np.unique(table[:, :2], axis=0)) == len(table)
        if not known or (table[:, 2] < 1).any() or (table[:, 0] < 0).any() or (table[:, 0] >= self._n).any():
            raise ValueError(
                f"the snapshot's {prefix}table must have rows (agent, person, used), each pair once, agents in "
                f"0..{self._n - 1} and used at least 1"
            )

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        self._used = {(int(agent), int(person)): int(used) for agent, person, used in state[prefix + "table"]}
