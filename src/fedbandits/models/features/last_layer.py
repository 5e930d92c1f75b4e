"""The last hidden layer of a network as features: in terms of it the network is linear."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_finite
from fedbandits.models.features.features import Features
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.cut_sums import shortened
from fedbandits.models.networks.evaluation import hidden


class LastLayer(Features):
    """z(x) = [a_{L-1}(x); 1], at parameters `theta` (n, p) of each agent's own, which whoever trains them replaces;
    where it is longer than `cut`, it is cut down to that.
    """

    keeps: ClassVar[tuple[str, ...]] = ("theta",)

    def __init__(self, network: Architecture, theta: FloatArray, n: int, cut: float = np.inf) -> None:
        self.dim, self.size = network.inputs, network.features
        self._network = network
        self._cut = cut
        self.theta = np.repeat(theta[None], n, axis=0)

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, q)."""
        check_finite("arms", who, arms)  # a rectifier would make a number of anything
        found = hidden(self._network, self.theta, who, arms)
        return found if self._cut == np.inf else shortened(found, self._cut)
