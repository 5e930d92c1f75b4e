"""Projection onto a ball in the norm of a matrix, solved exactly."""

from __future__ import annotations

import numpy as np

from fedbandits.arrays import FloatArray

_ITERATIONS = 60
_TOLERANCE = 1e-14


def project_to_ball(matrix: FloatArray, point: FloatArray, radius: float) -> FloatArray:
    """argmin over ||theta|| <= radius of (theta - point)^T A (theta - point), for each row.

    Shapes: matrix (m, d, d) positive definite, point (m, d); returns (m, d). Points inside are returned as they are.
    For the others the solution is theta(v) = (A + v I)^-1 A p with v > 0 such that ||theta(v)|| = radius: a root of
    phi(v) = 1/||theta(v)|| - 1/radius, which rises and is concave, so that Newton's method from v = 0 climbs to it
    without overshooting.
    """
    projected = point.copy()
    outside = np.flatnonzero(np.linalg.norm(point, axis=1) > radius)
    if len(outside) == 0:
        return projected
    values, vectors = np.linalg.eigh(matrix[outside])
    right = values * np.einsum("mij,mi->mj", vectors, point[outside])
    shift = np.zeros((len(outside), 1))
    for _ in range(_ITERATIONS):
        solved = right / (values + shift)
        norm = np.linalg.norm(solved, axis=1, keepdims=True)
        gap = 1 / norm - 1 / radius
        # a row that has arrived stays put, so that no row's result depends on its company
        off = np.abs(gap) * radius > _TOLERANCE
        if not off.any():
            break
        rise = (right**2 / (values + shift) ** 3).sum(axis=1, keepdims=True) / norm**3
        shift = np.where(off, np.maximum(shift - gap / rise, 0.0), shift)
    solved = right / (values + shift)
    projected[outside] = np.einsum("mij,mj->mi", vectors, solved)
    return projected
