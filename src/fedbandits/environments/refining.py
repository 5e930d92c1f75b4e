"""A box that can be climbed: what an agent is shown depends on what it chose last.

Arms are shown by the world, and agents choose among them: nobody can take a point that was not offered. So ascent takes
place by choices. Beside points of a quasi-random design an agent is shown its last choice and the steps from there
along every coordinate; its own index says which of them is highest, and taking it is a step uphill of that index: the
compass search of Hooke & Jeeves (1961), with the index in place of the function, and without its gradient, which no
world knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.world import Outcome, Turn
from fedbandits.environments.smooth import FunctionWorld

FIRST, LAST = 0.25, 1 / 256
"""How long steps are at first and at last, as a share of the box's extent."""


def around(dim: int) -> int:
    """How many points lie around a choice: itself, a step along each coordinate either way, and the last one again."""
    return 2 * dim + 2


class RefiningWorld(FunctionWorld):
    """As `world`, whose arms come first, with `around` more behind them for each agent, cut to the box [low, high]^d.

    `centre` (n, d) is what an agent chose last, beginning at `start`, `before` (n, d) the one before that, and `stride`
    (n,) the length of a step. A choice of the centre halves the stride, down to `LAST` of the box's extent, a step
    leaves it, and a point of the design sets it to `FIRST` again. Regret is against `top`, the maximum of f on the box.
    """

    keeps: ClassVar[tuple[str, ...]] = ("centre", "before", "stride")

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
        self.centre, self.before = start.copy(), start.copy()
        self.stride = np.full(len(start), FIRST * (self._high - self._low))

    def turn(self, step: int) -> Turn:
        """The design, and what lies around the last choice; see `World`."""
        shown = super().turn(step)
        near = self._near(shown.who)
        ones = np.ones((*near.shape[:2], shown.arms.shape[2] - near.shape[2]))
        arms = np.concatenate([shown.arms, np.concatenate([near, ones], axis=2)], axis=1)
        return Turn(shown.who, arms, shown.reachable)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """See `World`; where an agent is from here on is what it chose."""
        drawn, at = self._seek(step)
        shown = self.turn(step)
        who, inputs = shown.who, self.centre.shape[1]
        means = self._law.means(self._function(shown.arms[..., :inputs]))
        shocks = drawn.shocks[at] if drawn.there is None else drawn.shocks[at][drawn.there[at][drawn.who[at]]]
        rows = np.arange(len(who))
        earned, chosen = means[rows, picks], shown.arms[rows, picks, :inputs]
        stayed = (chosen == self.centre[who]).all(axis=1)
        shortest, longest = LAST * (self._high - self._low), FIRST * (self._high - self._low)
        stride = np.where(stayed, np.maximum(self.stride[who] / 2, shortest), self.stride[who])
        self.stride[who] = np.where(picks < shown.arms.shape[1] - around(inputs), longest, stride)
        self.before[who], self.centre[who] = self.centre[who], chosen
        return Outcome(self._law.rewards(earned, shocks), self._top - earned, means.mean(axis=1))

    def _near(self, who: IntArray) -> FloatArray:
        """(w, 2d + 2, d)."""
        centre = self.centre[who][:, None]
        steps = self.stride[who][:, None, None] * np.eye(self.centre.shape[1])
        again = 2 * centre - self.before[who][:, None]
        found = np.concatenate([centre, centre + steps, centre - steps, again], axis=1)
        return np.asarray(np.clip(found, self._low, self._high))
