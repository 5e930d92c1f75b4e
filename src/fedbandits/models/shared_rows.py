"""What several agents were told alike is kept once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg.recycled import is_sealed


class SharedRows(Stateful):
    """Arrays (m, ...), named by `rows`, whose row `row[i]` is that of agent i: `row` (n,), m <= n.

    Agents that know the same have one row, and whoever comes to know something else gets another (`claim`). Nobody can
    tell from what an agent computes whether its row is shared.
    """

    rows: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n: int) -> None:
        self.row = np.zeros(n, dtype=np.int64)

    def claim(self, who: IntArray, *, copied: bool) -> int:
        """A row for `who` and nobody else, holding what that of the first of them held if it is to be `copied`."""
        before = int(self.row[who[0]])
        if len(who) == len(self.row):
            self.row[:] = before
            return before
        self.row[who] = -1
        taken = np.unique(self.row[self.row >= 0])
        held = len(getattr(self, self.rows[0]))
        free = before
        if before in taken:
            free = next((row for row in range(held) if row not in taken), held)
            if free == held:
                self._grow(min(2 * held, len(self.row)) - held)
            for name in self.rows if copied else ():
                array = getattr(self, name)
                array[free] = array[before]
        self.row[who] = free
        return free

    def claim_each(self, who: IntArray) -> None:
        """A row for each of `who` and nobody else, holding what that of the agent held."""
        held = len(getattr(self, self.rows[0]))
        users = np.bincount(self.row, minlength=held)
        leaving = np.bincount(self.row[who], minlength=held)
        # where everybody leaves, the first one stays
        first = np.zeros(len(who), dtype=np.bool_)
        first[np.unique(self.row[who], return_index=True)[1]] = True
        sharing = who[~(first & (users == leaving)[self.row[who]])]
        if len(sharing) == 0:
            return
        free = np.flatnonzero(users == 0)
        lacking = len(sharing) - len(free)
        if lacking > 0:
            self._grow(max(lacking, min(2 * held, len(self.row)) - held))
            free = np.concatenate([free, np.arange(held, held + lacking)])
        free = free[: len(sharing)]
        for name in self.rows:
            array = getattr(self, name)
            array[free] = array[self.row[sharing]]
        self.row[sharing] = free

    def _grow(self, more: int) -> None:
        for name in self.rows:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)]))

    def _share(self, agent: int, prefix: str) -> State:
        own = self.row[agent]
        rows = {prefix + name: getattr(self, name)[own : own + 1] for name in self.rows}
        return super()._share(agent, prefix) | rows | {f"{prefix}row": np.zeros(1, dtype=np.int64)}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the number of rows may differ, between one and one for each agent."""
        row = state[f"{prefix}row"]
        if row.min() < 0 or row.max() >= len(row):
            raise ValueError(f"the snapshot's {prefix}row names rows that are not there")
        held = int(np.median([len(state[prefix + name]) for name in self.rows]))
        held = min(max(held, int(row.max()) + 1), len(row))
        for name in self.rows:
            given, needed = state[prefix + name].shape, (held, *getattr(self, name).shape[1:])
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")
        super()._check_grown(state, prefix)


class Told(SharedRows):
    """`values` (m, ...): one array that a server tells."""

    rows: ClassVar[tuple[str, ...]] = ("values",)
    keeps: ClassVar[tuple[str, ...]] = ("row", "values")
    resizes: ClassVar[frozenset[str]] = frozenset({"values"})

    def __init__(self, n: int, value: Array) -> None:
        super().__init__(n)
        self.values = value[None].copy()

    def tell(self, who: IntArray, values: Array) -> None:
        """Let `who` know `values` (w, ...), one each; a single one that is shown to all (stride 0) is kept once, and if
        nobody can write to it any more not even copied.
        """
        if len(who) == len(self.row) and values.strides[0] == 0 and is_sealed(values):
            self.values = values[:1]
            self.row[:] = 0
            return
        if not self.values.flags.writeable:
            self.values = self.values.copy()
        together = [(who, values[0])] if values.strides[0] == 0 else zip(who[:, None], values, strict=True)
        for some, value in together:
            row = self.claim(some, copied=False)
            self.values[row] = value
