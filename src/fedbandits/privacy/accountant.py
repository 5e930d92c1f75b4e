"""What releases cost together: the total (epsilon, delta) of composed Laplace mechanisms.

The unit of privacy is one reward: neighbouring histories of an agent differ in one reward, which belongs to one arm. So
the releases of one arm are composed, and an agent has spent the maximum over its arms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.extras import require
from fedbandits.privacy.schedules import Releases

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_ORDERS = 1 + np.geomspace(0.02, 2e4, 96)
"""Orders alpha of Renyi divergence. The bound is flat around the best one: with neighbours 16% apart, at most 0.3% is
lost to not hitting it, for budgets from 0.001 to 100."""


def composed(losses: FloatArray, delta: float) -> FloatArray:
    """(J,) -> (J+1,): epsilon of the first j Laplace mechanisms together, j = 0..J, at `delta`.

    `losses[i]` is sensitivity over scale of the i-th, its epsilon alone. The result is the smaller of two valid bounds:
    basic composition, the sum of the losses, which holds at delta = 0 and is best for few releases; and composition of
    Renyi divergences, exact for Laplace noise at every order (Mironov 2017, proposition 6), converted as in Canonne,
    Kamath & Steinke (2020), proposition 12. These are the numbers of `dp_accounting.rdp.RdpAccountant` at the same
    orders, for all prefixes at once. Composition may be adaptive: what comes later may depend on what was released.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    if (losses < 0).any() or not np.isfinite(losses).all():
        raise ValueError("losses must be finite and not negative")
    best = np.concatenate([[0.0], np.cumsum(losses)])
    if delta == 0:
        return np.asarray(best)
    for order in _ORDERS:
        divergence = np.concatenate([[0.0], np.cumsum(_laplace_divergence(losses, order))])
        epsilon = divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)
        # total variation is at most sqrt(1 - exp(-KL)), and KL at most this divergence
        epsilon[-np.expm1(-divergence) < delta**2] = 0.0
        np.minimum(best, epsilon, out=best)
    return np.asarray(np.maximum(best, 0.0))


@lru_cache(maxsize=256)
def spending(releases: Releases, delta: float) -> FloatArray:
    """(J+1,) epsilon spent once an arm has had j of its `releases`, at `delta`; read-only.

    The guarantee holds at every fixed j, and the last entry bounds the whole life of an agent. j itself is decided by
    what was released before, so what an agent reports in the middle of a run is a reading, not a theorem about the
    moment of reading.
    """
    table = composed(releases.losses, delta)
    table.flags.writeable = False
    return table


def event(losses: FloatArray) -> DpEvent:
    """The releases as a `dp_accounting` event, for any accountant that takes one. Needs the extra `privacy`."""
    require("privacy", "dp_accounting")
    from dp_accounting import ComposedDpEvent, LaplaceDpEvent

    return ComposedDpEvent([LaplaceDpEvent(noise_multiplier=float(1 / loss)) for loss in losses])


def tight(losses: FloatArray, delta: float) -> float:
    """Epsilon at `delta` from the distribution of the privacy loss, rounded up: the truth to about 1e-4 per release.

    By `dp_accounting.pld`, of the extra `privacy`. It takes about 20 s for 1000 different losses, which is why
    `composed` is used elsewhere.
    """
    require("privacy", "dp_accounting")
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(event(losses))
    return float(accountant.get_epsilon(delta))


def _laplace_divergence(losses: FloatArray, order: float) -> FloatArray:
    """Renyi divergence between Laplace distributions whose centres are `losses` scales apart."""
    inner = (order - 1) * np.expm1((1 - 2 * order) * losses) / (2 * order - 1)
    return np.asarray(losses + np.log1p(inner) / (order - 1))
