"""Tangent features: the gradient of a network in its parameters, at a point where these stay."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_finite
from fedbandits.models.features.features import Features
from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.evaluation import gradients, gradients_of_chosen, lanes_of, outputs


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
        check_finite("arms", who, arms)  # a rectifier would make a number of anything
        return _divided(gradients(self._network, self._theta, np.zeros(len(who), dtype=np.int64), arms), self._divisor)


class MovingTangent(Features):
    """phi(x) = divisor^-1 grad_theta f(x; theta_i), with f(x; theta_i) as offset: the network of agent i as it is now.

    `theta` (n, p) are everybody's parameters, which whoever trains them changes.
    """

    keeps: ClassVar[tuple[str, ...]] = ("theta",)

    def __init__(self, network: Architecture, theta: FloatArray, n: int, divisor: float = 1.0) -> None:
        self.dim, self.size = network.inputs, network.parameters
        self.network = network
        self.theta = np.repeat(theta[None], n, axis=0)
        self._divisor = divisor

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, p)."""
        check_finite("arms", who, arms)  # a rectifier would make a number of anything
        return _divided(gradients(self.network, self.theta, who, arms), self._divisor)

    def taken(self, who: IntArray, arms: FloatArray, picks: IntArray) -> tuple[FloatArray, FloatArray]:
        """(w, d) the arms in places `picks` (w,) and (w, p) what `of` says of them; all of it was checked before."""
        network = self.network
        x, phi = gradients_of_chosen(
            network.sizes, int(network.biased), network.scale, self.theta, who, lanes_of(arms), picks
        )
        return x, _divided(phi, self._divisor)

    def offsets(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w, K) what the networks say."""
        check_finite("arms", who, arms)
        return outputs(self.network, self.theta, who, arms)


def _divided(phi: FloatArray, divisor: float) -> FloatArray:
    """`phi` over `divisor`, in place."""
    if divisor != 1.0:
        phi /= divisor
    return phi
