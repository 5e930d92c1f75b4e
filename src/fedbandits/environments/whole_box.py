"""A box in which regret is against the best of all its points, and what an agent is shown follows its last choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.world import Outcome, Turn
from fedbandits.environments.smooth import FunctionWorld


class WholeBoxWorld(FunctionWorld):
    """As `world`, of whose arms a subclass makes what is shown, in the box [low, high]^d.

    `centre` (n, d) is what an agent chose last, beginning at `start`. Regret is against `top`, the maximum of f.
    """

    keeps: ClassVar[tuple[str, ...]] = ("centre",)

    def __init__(
        self,
        world: FunctionWorld,
        function: Callable[[FloatArray], FloatArray],
        top: float,
        box: tuple[float, float],
        start: FloatArray,
    ) -> None:
        vars(self).update(vars(world))
        self._function = function
        self._top = top
        self._low, self._high = box
        self.centre = start.copy()

    def design(self, step: int) -> Turn:
        """The turn of the world itself."""
        return super().turn(step)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """See `World`; where an agent is from here on is what it chose."""
        drawn, at = self._seek(step)
        shown = self.turn(step)
        who, inputs = shown.who, self.centre.shape[1]
        means = self._law.means(self._function(shown.arms[..., :inputs]))
        shocks = drawn.shocks[at] if drawn.there is None else drawn.shocks[at][drawn.there[at][drawn.who[at]]]
        rows = np.arange(len(who))
        earned, chosen = means[rows, picks], shown.arms[rows, picks, :inputs]
        self._move(shown, picks, chosen)
        self.centre[who] = chosen
        return Outcome(self._law.rewards(earned, shocks), self._top - earned, means.mean(axis=1))

    def _move(self, shown: Turn, picks: IntArray, chosen: FloatArray) -> None:
        """What else follows from what was `chosen` (w, d), `centre` being where agents were before."""

    def _padded(self, points: FloatArray, dim: int) -> FloatArray:
        """`points` (w, m, inputs) as arms of dimension `dim`, with the constant where arms have one."""
        ones = np.ones((*points.shape[:2], dim - points.shape[2]))
        return np.concatenate([points, ones], axis=2)
