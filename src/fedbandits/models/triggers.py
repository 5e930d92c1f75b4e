"""How close an agent is to calling: its trigger's level, by the threshold that the level has to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray


def urgencies(level: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """(n,) levels as multiples of their thresholds, which may be infinite (never reached) or 0 (by anything above)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(level / threshold, nan=0.0, posinf=np.inf)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fires for agents that have observed something since the last update and whose level has reached `threshold`.

    `level` maps observations since the last update (n,) and log-determinant growth (n,) to levels (n,).
    """

    level: Callable[[FloatArray, FloatArray], FloatArray]
    threshold: float

    def fired(self, count: FloatArray, growth: FloatArray) -> BoolArray:
        """(n,) for whom it fires."""
        return np.asarray((self.level(count, growth) >= self.threshold) & (count > 0))

    def urgency(self, count: FloatArray, growth: FloatArray) -> FloatArray:
        """(n,) how far it has come; 1 where it fires."""
        return urgencies(self.level(count, growth), self.threshold)
