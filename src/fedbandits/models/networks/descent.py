"""Steps downhill: by the gradient alone, or scaled coordinate by coordinate (Adam)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.state import Stateful

STRIDE = 3.2
"""No coordinate moves by more than so many times the rate in a step of Adam with a `square` of at most 0.999:
(1 - b1)/sqrt(1 - b2) = 3.17 where the gradients before were nothing, and about 1 where they go on as they were."""

_MEAN = 0.9
_LEAST = 1e-8


class Stepper(Protocol):
    """Turns gradients, in the order in which they come, into steps."""

    def step(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Where to go from `theta`, both of the same shape."""


class Descent:
    """theta - rate g."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def step(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """See `Stepper`."""
        return theta - self._rate * gradient


class Adam(Stateful):
    """theta - rate m / (sqrt(v) + 1e-8): m and v are running means of g and g^2, with weights 0.9 and `square`,
    corrected for their beginning at 0 (Kingma & Ba, ICLR 2015).

    `means` (2, *shape) are the two before they are corrected, and `weights` (2,) what they have gathered of 1: all that
    is remembered between steps.
    """

    keeps: ClassVar[tuple[str, ...]] = ("means", "weights")

    def __init__(self, rate: float, shape: tuple[int, ...], square: float = 0.999) -> None:
        self._rate = rate
        self._kept = np.array([_MEAN, square])
        self.means = np.zeros((2, *shape))
        self.weights = np.zeros(2)

    def step(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """See `Stepper`."""
        for part, value, kept in zip(self.means, (gradient, gradient**2), self._kept, strict=True):
            part *= kept
            part += (1 - kept) * value
        self.weights *= self._kept
        self.weights += 1 - self._kept
        mean, square = (part / weight for part, weight in zip(self.means, self.weights, strict=True))
        return np.asarray(theta - self._rate * mean / (np.sqrt(square) + _LEAST))


def descended(
    theta: FloatArray, gradient: Callable[[FloatArray], FloatArray], stepper: Stepper, steps: int
) -> FloatArray:
    """(w, p) after `steps` from `theta` (w, p) on."""
    for _ in range(steps):
        theta = stepper.step(theta, gradient(theta))
    return theta
