"""Agents in episodes, who count the stages they are in, or are told which one a choice is for."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.population import Population

_COUNTED = -1


class SituatedAgents(Population):
    """n agents in episodes of `length` H; `stage` (n,) is how many turns of the running episode each has had.

    Whoever is told its stage by `situate` chooses in that one, until `heard` is called, as subclasses do where they
    learn.
    """

    def __init__(self, n: int, length: int) -> None:
        super().__init__(n)
        self.length = length
        self.stage = np.zeros(n, dtype=np.int64)
        self._asked = np.full(n, _COUNTED)

    @property
    def stages(self) -> int:
        """H."""
        return self.length

    def situate(self, who: IntArray, stages: IntArray) -> None:
        """See `Population`."""
        if not ((stages >= 0) & (stages < self.length)).all():
            raise ValueError(f"stages lie in 0..{self.length - 1} (got {stages.tolist()})")
        self._asked[who] = stages

    def counting(self) -> bool:
        """Whether everybody goes by what it counts."""
        return bool((self._asked == _COUNTED).all())

    def heard(self, who: IntArray) -> None:
        """`who` have learned something: they go by what they count again."""
        self._asked[who] = _COUNTED

    def standing(self, who: IntArray) -> IntArray:
        """(w,) the stage that each of `who` chooses in."""
        return np.where(self._asked[who] == _COUNTED, self.stage[who], self._asked[who])
