"""The last hidden layer of a network as features: in terms of it the network is linear."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_finite
from fedbandits.models.features.features import Features
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import hidden


class LastLayer(Features):
    """z(x) = [a_{L-1}(x); 1], at parameters `theta` (n, p) of each agent's own, which whoever trains them replaces."""

    keeps: ClassVar[tuple[str, ...]] = ("theta",)

    def __init__(self, network: Architecture, theta: FloatArray, n: int) -> None:
        self.dim, self.size = network.inputs, network.features
        self._network = network
        self.theta = np.repeat(theta[None], n, axis=0)

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, q)."""
        check_finite("arms", who, arms)  # a rectifier would make a number of anything
        return hidden(self._network, self.theta, who, arms)
