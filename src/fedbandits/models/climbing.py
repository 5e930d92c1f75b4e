"""Agents that climb their own index: what they propose where a world has room for it.

Projected gradient ascent in the coordinates of the box, each point by itself: a step of a length of its own along the
gradient, without what would lead out of the box, is taken if the index is higher there, and the next one is then
longer; else it is not taken, and the next one is shorter. So no point ends lower than it began.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.population import Population
from fedbandits.contract.room import Room
from fedbandits.models.differences import Steep, differenced

STEPS = 20
FIRST = 0.1
"""How long steps are at first, as a share of the box's extent."""
_LONGER, _SHORTER = 1.5, 0.3
_NEAR = 1e-5
"""How far apart, as a share of the box's extent, the points are between which differences are taken."""
_TINY = 1e-300


def climbed(steep: Callable[[FloatArray], Steep], starts: FloatArray, room: Room, steps: int = STEPS) -> FloatArray:
    """(w, k, d) where `steps` of ascent lead from `starts` (w, k, d), `steep` telling the index and its gradient."""
    low, high = room.low, room.high
    extent = high - low
    points = np.clip(starts, low, high)
    values, slopes = steep(points)
    stride = np.full(values.shape, FIRST)
    for _ in range(steps):
        uphill = slopes * extent
        leaving = ((points <= low) & (uphill < 0)) | ((points >= high) & (uphill > 0))
        uphill = np.where(leaving, 0.0, uphill)
        length = np.sqrt((uphill**2).sum(axis=2))
        step = (stride / np.maximum(length, _TINY))[:, :, None] * uphill
        tried = np.clip(points + step * extent, low, high)
        found, steeper = steep(tried)
        better = found > values
        values = np.where(better, found, values)
        points, slopes = (np.where(better[:, :, None], new, old) for new, old in ((tried, points), (steeper, slopes)))
        stride *= np.where(better, _LONGER, _SHORTER)
    return points


class Climbing(Population):
    """Agents with an index, which is a function of the arm alone: they propose where it leads uphill from the best of
    the arms that they are shown. Those who draw have no index, and propose nothing.
    """

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """Points of a higher index; see `Population`."""
        scores = self.scores(who, arms)
        if scores is None:
            return None
        best = np.argsort(-scores, axis=1, kind="stable")[:, : room.slots]
        starts = np.take_along_axis(np.ascontiguousarray(arms), best[:, :, None], axis=1)
        reach = _NEAR * (room.high - room.low)
        return climbed(lambda points: self.steep(who, points, reach), starts, room)

    def steep(self, who: IntArray, points: FloatArray, reach: FloatArray) -> Steep:
        """The index of `points` (w, k, d), and its gradient: by central differences over `reach` (d,) of `scores`,
        unless a subclass knows better.
        """

        def index(arms: FloatArray) -> FloatArray:
            scores = self.scores(who, arms)
            assert scores is not None
            return scores

        return differenced(index, points, reach)
