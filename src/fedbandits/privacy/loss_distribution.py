"""What Laplace mechanisms cost together, from the distribution of the privacy loss: near the truth, and never below it.

Of a Laplace mechanism with loss lambda, the log-likelihood ratio L of its output under neighbouring data lies in
[-lambda, lambda]: it is lambda with probability 1/2, -lambda with probability exp(-lambda)/2, and has the density
exp((l - lambda)/2)/4 in between. Composition adds independent losses up, and the releases together are
(epsilon, delta)-differentially private for delta = E[(1 - exp(epsilon - L))_+] (Sommer, Meiser & Mohammadi 2019).

The sum is found on a grid of step h, by Fourier transform. Everything is rounded to the safe side:

- a loss between two points of the grid becomes one of the two at random, so that probabilities under both hypotheses
  stay what they are: such a pair dominates the true one (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022);
- what lies beyond the grid has probability at most tau, which is taken off delta. With D the Renyi divergence of order
  alpha, P(L > x) <= exp((alpha - 1)(D - x)), and rounding adds at most alpha h^2/8 to D for each mechanism: the
  logarithm of the moment-generating function of what rounding adds vanishes at 0 and -1 and is curved by h^2/4 at most;
- neighbours whose losses differ by less than `_ALIKE` count as equals, with the larger loss;
- so does what floating point may have lost (`_ROUNDING`).

Nothing is needed but numpy: no figure depends on what is installed. `accountant.tight` computes the same by
`dp_accounting`, and the tests hold one against the other.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg.jit import jit

_ALIKE = 1e-3
"""Relative; a budget is overstated by less than this."""
_BLUR = 2e-3
"""The share of the losses' variance that rounding to the grid may add; a budget is overstated by about half of it."""
_FEWEST, _MOST = 2**10, 2**15
"""Points of the grid."""
_BEYOND = 1e-3
"""The share of delta for what lies beyond the grid."""
_ROUNDING = 4e-16
_LONGEST = 600.0
"""Loss, beyond which exponentials overflow; nobody calls that privacy."""


def from_loss_distribution(
    losses: FloatArray, delta: float, orders: FloatArray, divergences: FloatArray, *, prefixes: bool
) -> FloatArray:
    """(J,) -> (J+1,) an upper bound on epsilon at `delta` > 0 of the first j of the Laplace mechanisms with `losses`.

    `divergences` (A,) are the Renyi divergences of all of them together at `orders` (A,). Infinite where nothing is
    said: before the last entry if `prefixes` are not asked for, for losses beyond `_LONGEST`, and for a delta that
    floating point does not reach.
    """
    found = np.full(len(losses) + 1, np.inf)
    found[0] = 0.0
    if not losses.any():
        return np.zeros(len(losses) + 1)
    step, points = _grid(losses, delta * _BEYOND, orders, divergences)
    lost = (math.sqrt(points) + 5) * (len(losses) + 32) * _ROUNDING
    room = delta * (1 - _BEYOND) - lost
    if step * points / 2 > _LONGEST or room < 0.9 * delta:
        return found
    ends, largest = _blocks(losses)
    spectrum = np.ones(points // 2 + 1, dtype=np.complex128)
    masses = np.empty(points)
    start = 0
    for end, loss in zip(ends.tolist(), largest.tolist(), strict=True):
        _masses(masses, loss, step)
        one = rfft(masses)
        spectrum *= one if end - start == 1 else one ** (end - start)
        if prefixes or end == len(losses):
            # whoever stands within a block has spent no more than at its end
            found[start + 1 : end + 1] = _epsilon(irfft(spectrum, points)[: points // 2], step, room)
        start = end
    return found


def _grid(losses: FloatArray, tail: float, orders: FloatArray, divergences: FloatArray) -> tuple[float, int]:
    """Step and number of points, an even one, of a grid that the sum leaves upwards with probability `tail` at most."""

    def reach(step: float) -> float:
        rounded = divergences + len(losses) * orders * step**2 / 8
        return float(min((rounded - np.log(tail) / (orders - 1)).min(), losses.sum() + len(losses) * step))

    first = reach(0.0)
    fine = math.sqrt(4 * _BLUR * float((np.minimum(losses, 1.0) ** 2).mean()))
    step = min(max(fine, 2 * first / _MOST), 2 * first / _FEWEST)
    return step, 2 * next_fast_len(math.ceil(reach(step) / step) + 2, real=True)


def _blocks(losses: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where blocks of neighbours that are alike end, and the largest loss of each."""
    ends = _block_ends(losses)
    starts = np.concatenate([[0], ends[:-1]])
    return ends, np.maximum.reduceat(losses, starts)


@jit
def _block_ends(losses: FloatArray) -> IntArray:
    ends = np.empty(len(losses), np.int64)
    size = 0
    low = high = losses[0]
    for j in range(1, len(losses)):
        low, high = min(low, losses[j]), max(high, losses[j])
        if high > low * (1 + _ALIKE):
            ends[size] = j
            size += 1
            low = high = losses[j]
    ends[size] = len(losses)
    return ends[: size + 1].copy()


@jit
def _masses(out: FloatArray, loss: float, step: float) -> None:
    """The distribution of one loss on the grid: `out` (N,) at 0, h, 2h, ..., and from the end back at -h, -2h, ..."""
    out[:] = 0.0
    n = len(out)
    whole = -math.expm1(-step)
    for sign in (1.0, -1.0):
        mass = 0.5 if sign > 0 else 0.5 * math.exp(-loss)
        cell = math.floor(sign * loss / step)
        up = -math.expm1(cell * step - sign * loss) / whole
        out[(cell + 1) % n] += mass * up
        out[cell % n] += mass * (1 - up)
    for cell in range(math.floor(-loss / step), math.ceil(loss / step)):
        low, high = max(cell * step, -loss), min((cell + 1) * step, loss)
        if high <= low:
            continue
        mass = 0.5 * math.exp((low - loss) / 2) * math.expm1((high - low) / 2)
        up = mass * -math.expm1(cell * step - (low + high) / 2) / whole
        out[(cell + 1) % n] += up
        out[cell % n] += mass - up


def _epsilon(masses: FloatArray, step: float, delta: float) -> float:
    """The least epsilon >= 0 with E[(1 - exp(epsilon - L))_+] <= `delta`, for L with `masses` (K,) at 0, h, 2h, ..."""
    points = step * np.arange(len(masses))
    above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    weighted = np.append(np.cumsum((masses * np.exp(-points))[:0:-1])[::-1], 0.0)
    within = above - np.exp(points) * weighted <= delta
    at = int(within.argmax())
    if at == 0:
        return 0.0 if within[0] else math.inf
    # between two points delta is a - b exp(epsilon)
    return min(float(points[at]), math.log((above[at - 1] - delta) / weighted[at - 1]))
