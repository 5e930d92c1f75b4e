"""The networks of the neural family as models: any number of hidden layers of rectifiers."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.parameters import parameters
from fedbandits.models.differentiable.model import AboutModel, Model
from fedbandits.models.networks import Architecture, gradient_sums, gradients, outputs
from fedbandits.models.observations import Observations

_FIRST = np.zeros(1, dtype=np.int64)


@parameters
class Rectifier(Model):
    """A fully connected network with biases, `layers` hidden layers of `width` rectifiers each (`models.networks`)."""

    width: Annotated[int, Field(ge=1)] = 25
    layers: Annotated[int, Field(ge=1)] = 1

    about: ClassVar[AboutModel] = AboutModel("rectifier", "hidden layers of rectifiers with biases")

    def network(self, dim: int) -> Architecture:
        """For arms of dimension `dim`."""
        return Architecture(dim, (self.width,) * self.layers, biased=True)

    def parameters(self, dim: int) -> int:
        """See `Model`."""
        return self.network(dim).parameters

    def values(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        return np.asarray(self.outputs(w[None], _FIRST, x[None])[0])

    def gradients(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        return np.asarray(self.tangents(w[None], _FIRST, x[None])[0])

    def limits(self, norm: float, longest: float) -> tuple[float, float]:
        """See `Model`: a layer makes nothing longer than `norm` times, and the constant comes on top."""
        reach, square = math.sqrt(longest**2 + 1), 0.0
        for layer in range(self.layers + 1):
            square += (norm ** (self.layers - layer) * reach) ** 2
            reach = math.sqrt((norm * reach) ** 2 + 1)
        return reach, math.sqrt(square)

    def outputs(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """See `Model`."""
        return outputs(self.network(arms.shape[2]), np.ascontiguousarray(theta), rows, arms)

    def tangents(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """See `Model`."""
        return gradients(self.network(arms.shape[2]), np.ascontiguousarray(theta), rows, arms)

    def slopes(self, theta: FloatArray, data: Observations, who: IntArray, end: IntArray) -> FloatArray:
        """See `Model`."""
        return gradient_sums(self.network(data.arms.shape[1]), np.ascontiguousarray(theta), data, who, end)
