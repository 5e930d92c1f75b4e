"""The Gaussian mechanism, exactly: what noise costs, and how much a budget asks for (Balle & Wang, ICML 2018).

Whoever adds N(0, sigma^2 I) to something that moves by at most Delta, in Euclidean norm, when one unit's data change
is (epsilon, delta)-differentially private for exactly those pairs with

    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),      mu = Delta / sigma.

So mu says all there is to say. Several Gaussian mechanisms together, chosen adaptively or not, are one with mu^2 the
sum of theirs (Dong, Roth & Su 2022, corollary 2): nothing is lost to composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from fedbandits.contract.extras import require

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_WIDEST = 1e8
"""Epsilon, beyond which the search gives up: no protection at all."""
_FINEST = 1e-14
"""How near roots are found, relatively; the side they are on is then made the safe one."""
_SMALLEST = 1e-8
"""Of mu, below which rounding is no longer small beside it: noise a hundred million times as large as what it hides."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta at which a Gaussian mechanism with `mu` is (`epsilon`, delta)-differentially private.

    As doubles have it: to about 2e-14 / min(mu, 1) of itself.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    # with a = mu/2 - epsilon/mu and b = mu/2 + epsilon/mu, b^2 = a^2 + 2 epsilon: e^epsilon Phi(-b) has no large factor
    near, far = (mu / 2 - epsilon / mu) / math.sqrt(2), (mu / 2 + epsilon / mu) / math.sqrt(2)
    if near < 0:
        return float(math.exp(-near * near) * (erfcx(-near) - erfcx(far)) / 2)
    return float(ndtr(near * math.sqrt(2)) - math.exp(-near * near) * erfcx(far) / 2)


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a Gaussian mechanism with `mu` is (epsilon, `delta`)-differentially private.

    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1): Gaussian noise has no pure guarantee (got {delta})")
    if mu < 0 or math.isnan(mu):
        raise ValueError(f"mu must not be negative, got {mu}")
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if gaussian_delta(mu, _WIDEST) > delta:
        return math.inf
    found = _root(lambda epsilon: delta - gaussian_delta(mu, epsilon))
    while gaussian_delta(mu, found) > delta:
        found += _FINEST * found
    return found


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
    found = _root(lambda mu: gaussian_delta(mu, epsilon) - delta)
    if found < _SMALLEST:
        raise ValueError(
            f"epsilon={epsilon:g} at delta={delta:g} allows no release: noise would have to be more than "
            f"{1 / _SMALLEST:g} times as large as what it hides"
        )
    while gaussian_delta(found, epsilon) > delta:
        found -= _FINEST * found
    return found


def gaussian_event(mu: float) -> DpEvent:
    """Releases that come to `mu` as a `dp_accounting` event, for any accountant that takes one. Needs the extra
    `privacy`.
    """
    require("privacy", "dp_accounting")
    from dp_accounting import GaussianDpEvent, NoOpDpEvent

    return GaussianDpEvent(1 / mu) if mu > 0 else NoOpDpEvent()


def _root(rising: Callable[[float], float]) -> float:
    """Where `rising`, a function of positive numbers, is zero, as nearly as doubles tell."""
    high = 1.0
    while rising(high) <= 0:
        high *= 2
    while rising(high / 2) > 0:
        high /= 2
    return float(brentq(rising, high / 2, high, xtol=_FINEST * high, rtol=_FINEST))
