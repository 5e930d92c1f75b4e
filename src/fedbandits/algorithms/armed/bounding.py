"""Half-widths from above, without a power: which arms need no closer look.

A `Rate` falls as x^p with x = demand / n. Up to p = 1 that is concave, so that it lies below its tangents: where w was
the half-width at x_0, it is at most w + p (w - offset) (x/x_0 - 1) at x. An arm of which little is heard has much the
same x from turn to turn: its index is bounded closely by two multiplications, and where that is below the index of
another arm, no power has to be computed. What is computed is computed as ever: nothing comes out differently.
"""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.armed.estimators.contract import Rate, width_at
from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg.jit import jit_inside

_WHERE, _WIDTH = 0, 1
_ROUNDING = 1e-12
"""Of a bound and of what it is made of; thousands of times as much as is lost in computing them."""


def untouched_widths(n: int, arms: int, rate: Rate) -> FloatArray:
    """(n, K, 2) where half-widths were computed, and what they were: nowhere yet; (0, K, 2) where bounds do not hold,
    or cost as much as what they spare.
    """
    touched = np.ones((n if rate.exponent < 1 and rate.exponent != 0.5 else 0, arms, 2))
    touched[:, :, _WIDTH] = np.inf
    return touched


@jit_inside
def width_from(touched: FloatArray, i: int, k: int, count: int, demand: float, rate: Rate) -> float:
    """The half-width of arm k for agent i, from which it is bounded later."""
    width = width_at(count, demand, rate.offset, rate.factor, rate.exponent)
    if len(touched) > 0 and count > 0:
        touched[i, k, _WHERE], touched[i, k, _WIDTH] = demand / count, width
    return float(width)


@jit_inside
def width_at_most(touched: FloatArray, i: int, k: int, count: int, demand: float, rate: Rate) -> float:
    """A bound on what `width_from` would be; infinite where nothing is known."""
    width = touched[i, k, _WIDTH] if len(touched) > 0 and count > 0 else np.inf
    if width == np.inf:
        return np.inf
    bound = width + rate.exponent * (width - rate.offset) * (demand / count / touched[i, k, _WHERE] - 1)
    return float(bound + _ROUNDING * (abs(bound) + width))
