"""Features of arms with those of the agent beside them."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.models.features.features import Features


class Appended(Features):
    """[phi; z_v] / scale for each arm phi that agent v sees: `own` (n, k) are the features z of the agents."""

    def __init__(self, dim: int, own: FloatArray, scale: float) -> None:
        self.dim = dim
        self.size = dim + own.shape[1]
        self._own = own
        self._scale = scale

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """See `Features`."""
        shown = np.empty((*arms.shape[:2], self.size))
        shown[:, :, : self.dim] = arms
        shown[:, :, self.dim :] = self._own[who][:, None]
        return shown / self._scale
