"""Centres that a minority cannot move far: the geometric median, and means without the outermost values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from fedbandits.linalg.kernels import Floats

_ROUNDS = 500
_STEP = 1e-10
"""A step this small, as a share of the points' spread, is the last one."""
_SAME = 1e-12
"""Points that are this close, as a share of their spread, are one."""
_NEAR = 1e-2
"""This close to a point, as a share of the spread, it is asked whether that point is the median itself."""


def geometric_median(points: Floats) -> Floats:
    """(m,) weights w >= 0 with sum 1 such that y = sum w_i x_i minimises sum ||x_i - y||, for `points` (m, p).

    Weiszfeld's iteration from the mean, w_i proportional to 1/||x_i - y||, with the correction of Vardi & Zhang (2000)
    where y meets a point, at which the iteration is not defined: a point x_k that occurs c times is the median if and
    only if || sum over the others of (x_i - x_k)/||x_i - x_k|| || <= c. The median is given by its weights, so that
    whatever is convex holds of other things that are averaged by them, as positive semidefiniteness.

    With fewer than half of the points anywhere, y stays within 2 (1 - a)/(1 - 2a) times the largest distance of the
    others from any given point, a being their share (Lopuhaä & Rousseeuw 1991).

    >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [1e6, 1e6]])
    >>> bool(np.abs(geometric_median(points) @ points).max() < 0.2)
    True
    """
    weights = np.full(len(points), 1 / len(points))
    spread = float(np.linalg.norm(points - weights @ points, axis=1).max(initial=0.0))
    if spread == 0 or not np.isfinite(spread):
        return weights
    for _ in range(_ROUNDS):
        centre = weights @ points
        distances = np.linalg.norm(points - centre, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= _NEAR * spread:
            centre = points[nearest]
            distances = np.linalg.norm(points - centre, axis=1)
            here = distances <= _SAME * spread
            pull = _pulls(points, centre, distances, here)
            strength = float(np.linalg.norm(pull.sum(axis=0)))
            if strength <= here.sum():
                return np.asarray(here / here.sum())
            if np.linalg.norm(weights @ points - centre) <= _SAME * spread:
                towards = _towards(distances, here)
                stay = here.sum() / strength
                weights = (1 - stay) * towards + stay * here / here.sum()
                continue
            centre = weights @ points
            distances = np.linalg.norm(points - centre, axis=1)
        following = _towards(distances, np.zeros(len(points), dtype=np.bool_))
        step = float(np.linalg.norm(following @ points - centre))
        weights = following
        if step <= _STEP * spread:
            break
    return weights


def trimmed_mean(values: Floats, cut: int) -> Floats:
    """(...) the mean of `values` (m, ...) entry by entry, without the `cut` lowest and the `cut` highest, 2 cut < m."""
    return np.asarray(np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0))


def _towards(distances: Floats, here: NDArray[np.bool_]) -> Floats:
    """(m,) Weiszfeld's weights of the points that are not `here`."""
    inverse = np.divide(1.0, distances, out=np.zeros(len(distances)), where=~here & (distances > 0))
    return np.asarray(inverse / inverse.sum())


def _pulls(points: Floats, centre: Floats, distances: Floats, here: NDArray[np.bool_]) -> Floats:
    """(m, p) unit vectors from `centre` to the points that are elsewhere, zero for the others."""
    lengths = np.where(here, np.inf, distances)
    return np.asarray((points - centre) / lengths[:, None])


def median_width(values: int, liars: int, chance: float) -> float:
    """z: the median of `values` numbers is off by more than that with a probability of at most `chance`.

    All but `liars` of them are independent and standard normal, and those may be anything; infinite without a majority.

    The median exceeds z only if k = ⌈m/2⌉ - liars of the h = m - liars honest numbers do. Each does with probability q,
    so that P(Bin(h, q) >= k) = I_q(k, h - k + 1) = chance/2 gives q, exactly, and z = -Phi^-1(q); the other side is the
    same. For a share a of liars, z = O(a + sqrt(log(1/chance)/m)) as long as a is bounded away from 1/2.

    >>> round(median_width(20, 0, 0.01), 2), round(median_width(20, 4, 0.01), 2), median_width(20, 10, 0.01)
    (0.78, 1.23, inf)
    """
    needed, honest = (values + 1) // 2 - liars, values - liars
    if needed < 1:
        return np.inf
    return float(-ndtri(betaincinv(needed, honest - needed + 1, chance / 2)))
