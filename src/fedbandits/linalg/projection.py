"""Projection onto a ball in the norm of a matrix, solved exactly."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import (
    Floats,
    backward_solved,
    cholesky,
    dot,
    forward_solved,
    load_upper,
    pitch_of,
    product,
)
from fedbandits.linalg.simd import Address, address, load, store, target

_ITERATIONS = 60
_TOLERANCE = 1e-14


def project_to_ball(matrix: Floats, point: Floats, radius: float) -> Floats:
    """argmin over ||theta|| <= radius of (theta - point)^T A (theta - point), for each row.

    Shapes: matrix (m, d, d) positive definite, point (m, d); returns (m, d). Points inside are returned as they are;
    see `project_one` for the others.
    """
    projected = np.array(point, order="C")
    row = _project(np.ascontiguousarray(matrix), projected, float(radius))
    if row >= 0:
        raise ValueError(f"row {row}: the matrix is not positive definite, or not finite")
    return projected


@jit
def _project(matrix: Floats, point: Floats, radius: float) -> int:
    """In place; the first row whose matrix is not positive definite, or -1."""
    d = point.shape[1]
    for row in range(len(point)):
        one = address(matrix, row * d * d)
        if not project_one(target(point, row * d), d, radius, one, one, 0.0, 0.0):
            return row
    return -1


@jit_part
def project_one(
    point: Address, d: int, radius: float, matrix: Address, more: Address, weight: float, ridge: float
) -> bool:
    """Project one point in place, for A = `matrix` + `weight` `more` + `ridge` I; False unless A > 0 and finite.

    Outside the ball the solution is theta(v) = (A + v I)^-1 A p with v > 0 such that ||theta(v)|| = radius: a root of
    phi(v) = 1/||theta(v)|| - 1/radius, which rises and is concave, so that Newton's method from v = 0 climbs to it
    without overshooting. With A + v I = U^T U its slope is ||U^-T theta||^2 / ||theta||^3.
    """
    if not dot(point, point, d) > radius * radius:
        return True
    whole = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            whole[i, j] = load(0.0, matrix, i * d + j) + weight * load(0.0, more, i * d + j)
        whole[i, i] += ridge
    pitch = pitch_of(d)
    return _on_sphere(point, d, pitch, radius, whole, np.empty((d, pitch)), np.empty((4, pitch)))


@jit_part
def _on_sphere(point: Address, d: int, pitch: int, radius: float, matrix: Floats, factor: Floats, rows: Floats) -> bool:
    upper, work = target(factor, 0), target(rows, 0)
    right, theta, back = target(rows, pitch), target(rows, 2 * pitch), target(rows, 3 * pitch)
    product(address(matrix, 0), point, d, right)
    shift = 0.0
    for _ in range(_ITERATIONS):
        load_upper(address(matrix, 0), shift, d, upper, pitch)
        if not cholesky(upper, d, pitch, work):
            return False
        forward_solved(upper, d, pitch, right, theta)
        backward_solved(upper, d, pitch, theta)
        forward_solved(upper, d, pitch, theta, back)
        squares = dot(theta, theta, d)
        norm = math.sqrt(squares)
        gap = 1.0 / norm - 1.0 / radius
        if abs(gap) * radius <= _TOLERANCE:
            break
        further = max(shift - gap * squares * norm / dot(back, back, d), 0.0)
        if further == shift:
            break
        shift = further
    for j in range(d):
        store(point, j, load(0.0, theta, j))
    return True
