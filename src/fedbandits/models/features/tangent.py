"""Tangent features: the gradient of a network in its parameters, at a point where these stay."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.models.features.features import Features
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import gradients


class TangentFeatures(Features):
    """phi(x) = divisor^-1 grad_theta f(x; theta_0): near theta_0 the network is linear in them.

    `theta` (p,) is theta_0, the same for all agents. Their inner products are the empirical neural tangent kernel; with
    a divisor of sqrt(m), a `scale` of sqrt(m) and symmetric parameters, that of Dai et al. (ICLR 2023).
    """

    def __init__(self, network: Architecture, theta: FloatArray, divisor: float = 1.0) -> None:
        self.dim, self.size = network.inputs, network.parameters
        self._network = network
        self._theta = np.ascontiguousarray(theta)[None]
        self._divisor = divisor

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, p)."""
        return gradients(self._network, self._theta, np.zeros(len(who), dtype=np.int64), arms) / self._divisor
