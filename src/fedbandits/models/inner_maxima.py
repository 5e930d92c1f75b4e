"""The most that a model can say of an arm within an ellipsoid of parameters: max f(x; w) over ||w - c||_V <= r.

Where f is linear in w it is reached at c + r V^-1 g / ||g||_{V^-1}, g the gradient. Elsewhere it is approached, from
below, by values of f itself at points of the ellipsoid.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.models.differentiable.model import Model

STEPS = 15
_STRIDE = 0.5
_TINY = 1e-300


def one_step(
    model: Model, centre: FloatArray, inverse: FloatArray, radius: float, arms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(K,) f at the linear maximiser of each of `arms` (K, d), and (K, p) these; `centre` c (p,), `inverse` V^-1."""
    directions = model.gradients(centre, arms) @ inverse
    lengths = np.sqrt(np.maximum(np.einsum("kp,kp->k", directions, model.gradients(centre, arms)), _TINY))
    points = centre + radius * directions / lengths[:, None]
    return _at(model, points, arms), points


def refined(
    model: Model, centre: FloatArray, inverse: FloatArray, radius: float, arms: FloatArray, steps: int = STEPS
) -> tuple[FloatArray, FloatArray]:
    """As `one_step`, and from there on `steps` of projected ascent: w = c + r M u, V^-1 = M M^T and ||u|| <= 1. The
    best of all points on the way.
    """
    root = np.linalg.cholesky(inverse)
    best, points = one_step(model, centre, inverse, radius, arms)
    u = np.linalg.solve(root, (points - centre).T / max(radius, _TINY)).T
    points = points.copy()
    for number in range(steps):
        now = centre + radius * u @ root.T
        slope = _slopes(model, now, arms) @ root
        slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), _TINY)
        u = u + _STRIDE / np.sqrt(1 + number) * slope
        u /= np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1.0)
        tried = centre + radius * u @ root.T
        found = _at(model, tried, arms)
        better = found > best
        best, points[better] = np.where(better, found, best), tried[better]
    return best, points


def centred(model: Model, centre: FloatArray, inverse: FloatArray, radius: float, arms: FloatArray) -> FloatArray:
    """(K,) f(x; c) + r ||grad f(x; c)||_{V^-1}: the maximum of the model made linear at the centre."""
    g = model.gradients(centre, arms)
    return np.asarray(model.values(centre, arms) + radius * np.sqrt(np.maximum(((g @ inverse) * g).sum(axis=1), 0.0)))


def _at(model: Model, points: FloatArray, arms: FloatArray) -> FloatArray:
    """(K,) f of each arm at a point of its own."""
    return model.outputs(points, np.arange(len(arms)), arms[:, None])[:, 0]


def _slopes(model: Model, points: FloatArray, arms: FloatArray) -> FloatArray:
    """(K, p) the gradient of each arm at a point of its own."""
    return model.tangents(points, np.arange(len(arms)), arms[:, None])[:, 0]
