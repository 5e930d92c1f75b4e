"""How far regressions on a dictionary may be off: a constant, what is proved of any dictionary, or what was published.

An agent knows m observations with features z of a dictionary S, A = sum z z^T + lambda I, and k(x, x) = 1
(`models.dictionary_models`). With f of norm at most B in the kernel's space, noise R, and

    v = log det A - log det lambda I,      e = sum (1 - ||z(x)||^2) / lambda,

e being what S misses of the observations,

    |mean(x) - f(x)| <= [(1 + sqrt(e)) sqrt(lambda) B + R sqrt(2 log(1/delta) + v + e)] sqrt(var(x))

for all x and turns at once with probability 1 - delta, whatever S is and however it was found. For z = Q phi with a
contraction Q, let E = 1 - Q^T Q, theta be f and eta the noise; then f(x) = z^T Q theta + phi^T E theta, and

    mean - f = -(lambda z^T A^-1 Q theta + phi^T E theta) + z^T A^-1 Z^T Phi E theta + z^T A^-1 Z^T eta.

The first part is at most sqrt(lambda var) B by Cauchy and Schwarz, as var = phi^T E phi / lambda + z^T A^-1 z; the
second at most sqrt(var) ||Phi E^(1/2)|| B, and ||Phi E^(1/2)||^2 <= tr Phi E Phi^T = lambda e; the last at most
sqrt(var) ||Phi^T eta||_{V^-1}, since Z Z^T <= K, and that is the self-normalised bound, whose log det(I + K/lambda) is
at most v + e.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.errors import ConfigError

DictionaryWidth: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""v and e of agents (w,) -> widths (w,), of which sqrt(var) is taken."""


def constant(width: float) -> DictionaryWidth:
    """The same for everybody."""
    return lambda volume, missed: np.full(len(volume), width)


def proved(*, ridge: float, bound: float, noise: float, delta: float) -> DictionaryWidth:
    """What is proved above."""

    def width(volume: FloatArray, missed: FloatArray) -> FloatArray:
        bias = (1 + np.sqrt(missed)) * math.sqrt(ridge) * bound
        return np.asarray(bias + noise * np.sqrt(2 * math.log(1 / delta) + volume + missed))

    return width


def published(
    *, accuracy: float, threshold: float, agents: int, ridge: float, bound: float, noise: float, delta: float
) -> DictionaryWidth:
    """(1/sqrt(r) + 1) sqrt(lambda) B + 2 R sqrt(log(n/delta) + gamma) with r = 1/(1 + D (1+eps)/(1-eps)) - eps, for an
    `accuracy` eps of the dictionary and D = `threshold`. gamma is (v + e)/2, a bound for the information gain of what
    an agent knows, where the publication has the largest of any nT observations.
    """
    left = 1 / (1 + threshold * (1 + accuracy) / (1 - accuracy)) - accuracy
    if left <= 0:
        raise ConfigError(
            f"approx-dis-kernel-ucb: width=published has none for accuracy={accuracy:g} and a threshold of "
            f"{threshold:g}, since 1/(1 + D (1+eps)/(1-eps)) - eps is {left:.2g}; lower accuracy or threshold"
        )
    bias = (1 / math.sqrt(left) + 1) * math.sqrt(ridge) * bound

    def width(volume: FloatArray, missed: FloatArray) -> FloatArray:
        return np.asarray(bias + 2 * noise * np.sqrt(math.log(agents / delta) + (volume + missed) / 2))

    return width


def published_oversampling(*, accuracy: float, agents: int, horizon: int, delta: float) -> float:
    """q = 6 (1+eps)/(1-eps) log(4nT/delta) / eps^2, for which dictionaries are as accurate as eps says."""
    return 6 * (1 + accuracy) / (1 - accuracy) * math.log(4 * agents * horizon / delta) / accuracy**2
