"""The Gaussian mechanism, exactly: what noise costs, and how much a budget asks for (Balle & Wang, ICML 2018).

Whoever adds N(0, sigma^2 I) to something that moves by at most Delta, in Euclidean norm, when one unit's data change
is (epsilon, delta)-differentially private for exactly those pairs with

    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),      mu = Delta / sigma.

So mu says all there is to say. Several Gaussian mechanisms together, chosen adaptively or not, are one with mu^2 the
sum of theirs (Dong, Roth & Su 2022, corollary 2): nothing is lost to composition.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

_WIDEST = 1e8
"""Epsilon, beyond which the search gives up: no protection at all."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta at which a Gaussian mechanism with `mu` is (`epsilon`, delta)-differentially private.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    # exp(first) - exp(second), the latter being the smaller one
    return float(np.exp(first) * -np.expm1(min(second - first, 0.0)))


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a Gaussian mechanism with `mu` is (epsilon, `delta`)-differentially private.

    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3777
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1): Gaussian noise has no pure guarantee (got {delta})")
    if mu < 0 or math.isnan(mu):
        raise ValueError(f"mu must not be negative, got {mu}")
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
        if high > _WIDEST:
            return math.inf
    found = float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, high, xtol=1e-12, rtol=1e-12))
    return math.nextafter(found, math.inf) if gaussian_delta(mu, found) > delta else found


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (`epsilon`, `delta`)-differentially private: noise of standard
    deviation Delta/mu keeps the budget, and less does not.

    >>> round(gaussian_mu(1.0, 1e-5), 6)
    0.268051
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1): Gaussian noise has no pure guarantee (got {delta})")
    if not epsilon > 0 or math.isinf(epsilon):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    found = float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 0.0, high, xtol=1e-14, rtol=1e-13))
    while gaussian_delta(found, epsilon) > delta:
        found = math.nextafter(found, 0.0)
    return found
