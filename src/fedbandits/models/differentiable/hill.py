"""One hill: the model of somebody who knows that there is a best place, and how things look around it."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.parameters import parameters
from fedbandits.models.differentiable.model import AboutModel, Model


@parameters
class Hill(Model):
    """f(x; w) = h - r ||x - c||^2, with w = (c, r, h): p = d + 2. The gradient is (2 r (x - c), -||x - c||^2, 1).

    >>> Hill().parameters(8)
    10
    """

    about: ClassVar[AboutModel] = AboutModel("hill", "a paraboloid of unknown place, steepness and height")

    def parameters(self, dim: int) -> int:
        """See `Model`."""
        return dim + 2

    def values(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        return np.asarray(w[-1] - w[-2] * ((x - w[:-2]) ** 2).sum(axis=1))

    def gradients(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        gaps = x - w[:-2]
        return np.column_stack([2 * w[-2] * gaps, -(gaps**2).sum(axis=1), np.ones(len(x))])

    def inclines(
        self, theta: FloatArray, rows: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray
    ) -> FloatArray:
        """See `Model`: 2 r (e - (x - c)) - 2 s (x - c) for u = (e, s, .)."""
        w = theta[rows][:, None]
        gaps, rate = arms - w[..., :-2], w[..., -2:-1]
        return np.asarray(2 * rate * (along[..., :-2] - gaps) - 2 * along[..., -2:-1] * gaps)

    def limits(self, norm: float, longest: float) -> tuple[float, float]:
        """See `Model`."""
        away = longest + norm
        return norm * (1 + away**2), math.sqrt((2 * norm * away) ** 2 + away**4 + 1)
