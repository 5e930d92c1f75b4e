"""A box that can be climbed: what an agent is shown depends on what it chose last.

For all agents, whatever they know: whoever has an index of its own can name points in a world that leaves room for them
(`environments.proposing`). Here nobody can take a point that the world does not offer, and ascent takes place by
choices. Beside points of a quasi-random design an agent is shown its last choice and the steps from there
along every coordinate; its own index says which of them is highest, and taking it is a step uphill of that index: the
compass search of Hooke & Jeeves (1961), with the index in place of the function, and without its gradient, which no
world knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.world import Turn
from fedbandits.environments.smooth import FunctionWorld
from fedbandits.environments.whole_box import WholeBoxWorld

FIRST, LAST = 0.25, 1 / 256
"""How long steps are at first and at last, as a share of the box's extent."""


def around(dim: int) -> int:
    """How many points lie around a choice: itself, a step along each coordinate either way, and the last one again."""
    return 2 * dim + 2


class RefiningWorld(WholeBoxWorld):
    """As `world`, whose arms come first, with `around` more behind them for each agent, cut to the box [low, high]^d.

    `before` (n, d) is the choice before the last one, and `stride` (n,) the length of a step. A choice of the centre
    halves the stride, down to `LAST` of the box's extent, a step leaves it, and a point of the design sets it to
    `FIRST` again.
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
        super().__init__(world, function, top, box, start)
        self.before = start.copy()
        self.stride = np.full(len(start), FIRST * (self._high - self._low))

    def turn(self, step: int) -> Turn:
        """The design, and what lies around the last choice; see `World`."""
        shown = self.design(step)
        near = self._padded(self._near(shown.who), shown.arms.shape[2])
        return Turn(shown.who, np.concatenate([shown.arms, near], axis=1), shown.reachable)

    def _move(self, shown: Turn, picks: IntArray, chosen: FloatArray) -> None:
        who, inputs = shown.who, self.centre.shape[1]
        stayed = (chosen == self.centre[who]).all(axis=1)
        shortest, longest = LAST * (self._high - self._low), FIRST * (self._high - self._low)
        stride = np.where(stayed, np.maximum(self.stride[who] / 2, shortest), self.stride[who])
        self.stride[who] = np.where(picks < shown.arms.shape[1] - around(inputs), longest, stride)
        self.before[who] = self.centre[who]

    def _near(self, who: IntArray) -> FloatArray:
        """(w, 2d + 2, d)."""
        centre = self.centre[who][:, None]
        steps = self.stride[who][:, None, None] * np.eye(self.centre.shape[1])
        again = 2 * centre - self.before[who][:, None]
        found = np.concatenate([centre, centre + steps, centre - steps, again], axis=1)
        return np.asarray(np.clip(found, self._low, self._high))
