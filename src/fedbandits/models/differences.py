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
