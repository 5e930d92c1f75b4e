"""A box in which agents name points of their own: they know a model of f, and where it leads uphill; no world does."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.room import Room
from fedbandits.contract.world import Turn
from fedbandits.environments.whole_box import WholeBoxWorld

SLOTS = 2
"""How many points an agent may propose in a turn."""


class ProposingWorld(WholeBoxWorld):
    """As `world`, of whose arms the last `SLOTS` may be replaced by what agents propose; right before these stands an
    agent's last choice, from which it may want to go on. Who proposes nothing has the whole design to choose from.
    """

    _offered: tuple[int, FloatArray] | None = None

    def turn(self, step: int) -> Turn:
        """The design, the last choice, and what was offered for this step; see `World`."""
        shown = self.design(step)
        dim = shown.arms.shape[2]
        here = self._padded(self.centre[shown.who][:, None], dim)
        arms = np.concatenate([shown.arms[:, :-SLOTS], here, shown.arms[:, -SLOTS:]], axis=1)
        low, high = np.ones((2, dim))  # the constant, where there is one, is not for agents to choose
        low[: self.centre.shape[1]], high[: self.centre.shape[1]] = self._low, self._high
        room = Room(low, high, SLOTS)
        if self._offered is not None and self._offered[0] == step:
            arms[:, -SLOTS:] = room.fit(shown.who, self._offered[1])
        return Turn(shown.who, arms, shown.reachable, room)

    def offer(self, step: int, proposed: FloatArray) -> None:
        """See `World`."""
        turn = self.turn(step)
        assert turn.room is not None
        self._offered = step, turn.room.fit(turn.who, proposed)

    def _move(self, shown: Turn, picks: IntArray, chosen: FloatArray) -> None:
        self._offered = None
