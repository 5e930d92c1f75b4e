"""Any differentiable model as features: its gradient at a point, with what it says there as offset."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_finite
from fedbandits.models.differentiable.model import Model
from fedbandits.models.features.features import Features


class Linearised(Features):
    """phi(x) = grad f(x; w_i) and offset f(x; w_i): near w_i the model of agent i is linear in them.

    `w` (n, p) are the points, which whoever begins with them sets.
    """

    keeps: ClassVar[tuple[str, ...]] = ("w",)

    def __init__(self, model: Model, n: int, dim: int) -> None:
        self.dim, self.size = dim, model.parameters(dim)
        self.model = model
        self.w = np.zeros((n, self.size))

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, p)."""
        check_finite("arms", who, arms)
        return self.model.tangents(self.w, who, arms)

    def offsets(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w, K) what the model says."""
        check_finite("arms", who, arms)
        return self.model.outputs(self.w, who, arms)

    def slopes(self, who: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray) -> FloatArray:
        """See `Features`."""
        return self.model.inclines(self.w, who, arms, along, reach)
