"""Ridge regressions for every stage of an episode."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.models.ridge import RidgeModels


class StageModels(RidgeModels):
    """`length` H regressions for each of n agents: row agent H + stage of everything that `RidgeModels` has.

    Of the regressions the matrices are used alone, V = base + fresh + lambda I with its inverse and its growth; targets
    of value iteration change with every plan, so that moments are not kept here.
    """

    def __init__(self, n: int, length: int, dim: int, ridge: float) -> None:
        super().__init__(n * length, dim, ridge)
        self.length = length

    def visit(self, at: IntArray, x: FloatArray) -> None:
        """One arm (m, d) taken in each of the rows `at` (m,), distinct ones."""
        if len(at):
            self.learn_chosen(at, x, np.zeros(len(at)))

    def farthest(self) -> FloatArray:
        """(n,) the growth of log det V in the stage where it is largest."""
        return np.asarray(self.growth.reshape(-1, self.length).max(axis=1))

    def rows(self, who: IntArray, stage: int | None = None) -> IntArray:
        """(w,) the rows of `who` in a stage; (w H,) in all of them, agent by agent."""
        if stage is not None:
            return who * self.length + stage
        return (who[:, None] * self.length + np.arange(self.length)).ravel()

    def _share(self, agent: int, prefix: str) -> State:
        at = slice(agent * self.length, (agent + 1) * self.length)
        return {name: array[at] for name, array in self._arrays(prefix).items()}
