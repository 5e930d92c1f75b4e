"""Steps downhill: by the gradient alone, or scaled coordinate by coordinate (Adam)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray

STRIDE = 3.2
"""No coordinate moves by more than so many times the rate in a step of Adam: (1 - b1)/sqrt(1 - b2) = 3.17 where the
gradients before were nothing, and about 1 where they go on as they were."""

_MEAN, _SQUARE = 0.9, 0.999
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


class Adam:
    """theta - rate m / (sqrt(v) + 1e-8): m and v are running means of g and g^2, with weights 0.9 and 0.999, corrected
    for their beginning at 0 (Kingma & Ba, ICLR 2015).
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._steps = 0
        self._mean: FloatArray | float = 0.0
        self._square: FloatArray | float = 0.0

    def step(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """See `Stepper`."""
        self._steps += 1
        self._mean = _MEAN * self._mean + (1 - _MEAN) * gradient
        self._square = _SQUARE * self._square + (1 - _SQUARE) * gradient**2
        mean = self._mean / (1 - _MEAN**self._steps)
        square = self._square / (1 - _SQUARE**self._steps)
        return np.asarray(theta - self._rate * mean / (np.sqrt(square) + _LEAST))


def descended(
    theta: FloatArray, gradient: Callable[[FloatArray], FloatArray], stepper: Stepper, steps: int
) -> FloatArray:
    """(w, p) after `steps` from `theta` (w, p) on."""
    for _ in range(steps):
        theta = stepper.step(theta, gradient(theta))
    return theta
