"""Gradients by differences, for functions that are told by their values alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedbandits.contract.arrays import FloatArray

Steep = tuple[FloatArray, FloatArray]
"""(w, k) a function at points, and (w, k, d) its gradient."""


def differenced(function: Callable[[FloatArray], FloatArray], points: FloatArray, reach: FloatArray) -> Steep:
    """`function` (w, K, d) -> (w, K) at `points` (w, k, d), and its gradient by central differences over `reach` (d,)
    to either side; 0 along coordinates in which that is 0.
    """
    w, k, d = points.shape
    axes = np.flatnonzero(reach)
    steps = np.zeros((1 + 2 * len(axes), d))
    steps[1 + 2 * np.arange(len(axes)), axes] = reach[axes]
    steps[2 + 2 * np.arange(len(axes)), axes] = -reach[axes]
    near = points[:, :, None] + steps
    found = function(np.ascontiguousarray(near.reshape(w, -1, d))).reshape(w, k, -1)
    slopes = np.zeros((w, k, d))
    slopes[:, :, axes] = (found[:, :, 1::2] - found[:, :, 2::2]) / (2 * reach[axes])
    return np.ascontiguousarray(found[:, :, 0]), slopes


def leaning_slopes(
    features: Callable[[FloatArray], FloatArray],
    offsets: Callable[[FloatArray], FloatArray | None],
    arms: FloatArray,
    along: FloatArray,
    reach: FloatArray,
) -> FloatArray:
    """(w, K, d) the gradient of offset(x) + <phi(x), u> at `arms` (w, K, d), with a u for each of them in `along`
    (w, K, p): `features` (w, m, d) -> (w, m, p) are phi, `offsets` (w, m) or None. As `differenced`.
    """

    def projected(near: FloatArray) -> FloatArray:
        each = near.shape[1] // arms.shape[1]
        found = np.einsum("wkp,wkp->wk", features(near), np.repeat(along, each, axis=1))
        offset = offsets(near)
        return np.asarray(found if offset is None else offset + found)

    return differenced(projected, arms, reach)[1]
