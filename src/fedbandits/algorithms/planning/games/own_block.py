"""What an agent in a game sees of itself."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Game
from fedbandits.contract.problem import Problem
from fedbandits.models.features import Features


class OwnBlock(Features):
    """Of the arms of a game (the fact `Game`) an agent's own block alone; of other arms all."""

    def __init__(self, problem: Problem, identities: IntArray) -> None:
        self.dim = problem.dim
        self.size = block_of(problem)
        self._places = (identities[:, None] * self.size + np.arange(self.size)) % self.dim

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w, K, d) -> (w, K, b)."""
        return np.take_along_axis(arms, self._places[who][:, None, :], axis=2)


def block_of(problem: Problem, by: About | None = None) -> int:
    """b, or d where there is no game."""
    game = problem.get(Game) if by is None else problem.need(Game, by=by)
    return problem.dim if game is None else problem.dim // problem.agents
