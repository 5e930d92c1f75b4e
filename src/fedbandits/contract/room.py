"""Where agents may name arms of their own, beside those that they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """The last `slots` of the arms of a turn may be replaced, by points of the box from `low` (d,) to `high` (d,).

    A coordinate in which the two are equal is given: it is not for anybody to choose.
    """

    low: FloatArray
    high: FloatArray
    slots: int

    def fit(self, who: IntArray, proposed: FloatArray) -> FloatArray:
        """`proposed` (w, slots, d), cut to the box. What is not finite, or of another shape, is refused."""
        shape = (len(who), self.slots, len(self.low))
        if proposed.shape != shape:
            raise ValueError(f"proposals of shape {proposed.shape}: there is room for (w, slots, d) = {shape}")
        if not np.isfinite(proposed).all():
            odd = who[~np.isfinite(proposed).all(axis=(1, 2))]
            raise ValueError(f"what agent {odd[0]} proposes is not finite")
        return np.asarray(np.clip(proposed, self.low, self.high))


class Proposing(Protocol):
    """Whoever can be asked for arms: a population, or several."""

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """See `Population`."""
