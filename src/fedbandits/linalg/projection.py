"""Projection onto a ball in the norm of a matrix, solved exactly."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import Floats

_ITERATIONS = 60
_TOLERANCE = 1e-14


def project_to_ball(matrix: Floats, point: Floats, radius: float) -> Floats:
    """argmin over ||theta|| <= radius of (theta - point)^T A (theta - point), for each row.

    Shapes: matrix (m, d, d) positive definite, point (m, d); returns (m, d). Points inside are returned as they are.
    For the others the solution is theta(v) = (A + v I)^-1 A p with v > 0 such that ||theta(v)|| = radius: a root of
    phi(v) = 1/||theta(v)|| - 1/radius, which rises and is concave, so that Newton's method from v = 0 climbs to it
    without overshooting.
    """
    projected = point.copy()
    outside = np.flatnonzero(np.einsum("md,md->m", point, point) > radius**2)
    if len(outside):
        values, vectors = np.linalg.eigh(matrix[outside])
        projected[outside] = _solve(values, vectors, point[outside], radius)
    return projected


@jit
def _solve(values: Floats, vectors: Floats, point: Floats, radius: float) -> Floats:
    """theta(v) of each row, from the eigenvalues (m, d) and eigenvectors (m, d, d) of A; rows do not meet."""
    m, d = values.shape
    solved = np.zeros((m, d))
    right = np.empty(d)
    for row in range(m):
        for j in range(d):
            along = 0.0
            for i in range(d):
                along += vectors[row, i, j] * point[row, i]
            right[j] = values[row, j] * along
        shift = 0.0
        for _ in range(_ITERATIONS):
            squares = 0.0
            cubes = 0.0
            for j in range(d):
                part = right[j] / (values[row, j] + shift)
                squares += part * part
                cubes += part * part / (values[row, j] + shift)
            norm = math.sqrt(squares)
            gap = 1.0 / norm - 1.0 / radius
            if abs(gap) * radius <= _TOLERANCE:
                break
            shift = max(shift - gap * squares * norm / cubes, 0.0)
        for j in range(d):
            part = right[j] / (values[row, j] + shift)
            for i in range(d):
                solved[row, i] += vectors[row, i, j] * part
    return solved
