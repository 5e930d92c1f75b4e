"""Waves along directions that are learned: a model of few parameters for what repeats, or bends, along a line."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.parameters import parameters
from fedbandits.models.differentiable.model import AboutModel, Model


@parameters
class Waves(Model):
    """f(x; w) = sum_j v_j cos(<u_j, x> + c_j) + b with `width` m waves.

    w is U (m x d) row by row, then c (m), v (m) and b: p = m (d + 2) + 1. With s = -v sin(U x + c), wave by wave, the
    gradient is (vec(s x^T), s, cos(U x + c), 1). One wave is all there is to cos(3 <a, x>), which a kernel has to fill
    d dimensions for.

    >>> Waves(width=1).parameters(10)
    13
    """

    width: Annotated[int, Field(ge=1)] = 25

    about: ClassVar[AboutModel] = AboutModel("waves", "cosines along learned directions")

    def parameters(self, dim: int) -> int:
        """See `Model`."""
        return self.width * (dim + 2) + 1

    def values(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        phases, heights, level = self._parts(w, x)
        return np.asarray(np.cos(phases) @ heights + level)

    def gradients(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        phases, heights, _ = self._parts(w, x)
        slopes = -heights * np.sin(phases)
        along = (slopes[:, :, None] * x[:, None]).reshape(len(x), -1)
        return np.concatenate([along, slopes, np.cos(phases), np.ones((len(x), 1))], axis=1)

    def inclines(
        self, theta: FloatArray, rows: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray
    ) -> FloatArray:
        """See `Model`. With u = (S, e, y, .) in the order of w: sum_j (-(v_j + y_j) sin_j - v_j cos_j (<S_j, x> + e_j))
        u_j - v_j sin_j S_j.
        """
        m, d = self.width, arms.shape[2]
        out = np.empty(arms.shape)
        for place, (row, x) in enumerate(zip(rows, arms, strict=True)):
            phases, heights, _ = self._parts(theta[row], x)
            turned = along[place, :, : m * d].reshape(-1, m, d)
            lean = (turned * x[:, None]).sum(axis=2) + along[place, :, m * d : m * (d + 1)]
            higher = heights + along[place, :, m * (d + 1) : -1]
            outer = -higher * np.sin(phases) - heights * np.cos(phases) * lean
            own = (heights * np.sin(phases))[:, :, None] * turned
            out[place] = outer @ theta[row, : m * d].reshape(m, d) - own.sum(axis=1)
        return out

    def limits(self, norm: float, longest: float) -> tuple[float, float]:
        """See `Model`: no wave is higher than 1, nor steeper."""
        units = self.width + 1
        return norm * math.sqrt(units), math.sqrt(norm**2 * (longest**2 + 1) + units)

    def _parts(self, w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """(K, m) the phases of all waves, (m,) their heights, and b."""
        m, d = self.width, x.shape[1]
        return x @ w[: m * d].reshape(m, d).T + w[m * d : m * (d + 1)], w[m * (d + 1) : -1], float(w[-1])
