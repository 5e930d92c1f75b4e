"""Projection onto a ball in the norm of a matrix: hand-checked, by its optimality conditions, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedbandits.linalg.projection import project_to_ball


def example(seed, d, spread, far):
    """A positive definite matrix with eigenvalues `spread` powers of ten apart, and a point about `far` from 0."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    matrix = (directions * 10 ** np.linspace(0, spread, d)) @ directions.T
    point = rng.standard_normal(d)
    return (matrix + matrix.T) / 2, far * point / np.linalg.norm(point)


examples = given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 8),
    spread=st.floats(0, 6),
    far=st.floats(0.1, 100),
    radius=st.floats(0.1, 9),
)


def test_by_hand():
    matrix, point = np.array([[4.0, 1.0], [1.0, 2.0]]), np.array([1.5, -1.0])
    found = project_to_ball(matrix[None], point[None], 1.0)[0]
    np.testing.assert_allclose(found, [0.9268259844, -0.3754911380], atol=1e-10)
    multiplier = (matrix @ (point - found)) / found
    np.testing.assert_allclose(multiplier, 1.7998925674, atol=1e-9)


@examples
def test_optimality(seed, d, spread, far, radius):
    """Inside: untouched. Outside: on the sphere, and A(p - theta) = v theta with one v >= 0, which is sufficient."""
    matrix, point = example(seed, d, spread, far)
    found = project_to_ball(matrix[None], point[None], radius)[0]
    if far < radius * (1 - 1e-9):
        np.testing.assert_array_equal(found, point)
        return
    assume(far > radius * (1 + 1e-9))
    np.testing.assert_allclose(np.linalg.norm(found), radius, rtol=1e-11)
    pull = matrix @ (point - found)
    multiplier = pull @ found / radius**2
    assert multiplier >= 0
    np.testing.assert_allclose(pull, multiplier * found, atol=1e-9 * np.linalg.norm(matrix @ point))


@pytest.mark.parametrize("seed", range(25))
def test_no_worse_than_scipy(seed):
    matrix, point = example(seed, 5, 2, 3.0)
    distance = lambda theta: (theta - point) @ matrix @ (theta - point)  # noqa: E731
    ball = {"type": "ineq", "fun": lambda theta: 1 - theta @ theta, "jac": lambda theta: -2 * theta}
    gradient = lambda theta: 2 * matrix @ (theta - point)  # noqa: E731
    scipys = minimize(
        distance, np.zeros(5), jac=gradient, constraints=[ball], method="SLSQP", options={"ftol": 1e-11, "maxiter": 500}
    )
    assert scipys.success
    found = project_to_ball(matrix[None], point[None], 1.0)[0]
    np.testing.assert_allclose(distance(found), scipys.fun, rtol=1e-7)
    np.testing.assert_allclose(found, scipys.x, atol=1e-4)


def test_in_the_euclidean_norm_it_is_a_scaling():
    point = np.array([[3.0, 4.0]])
    np.testing.assert_allclose(project_to_ball(7 * np.eye(2)[None], point, 2.0), point * 2 / 5, rtol=1e-13)


def test_no_row_depends_on_its_company():
    """To the last bit, or two worlds would not agree."""
    rows = [example(seed, 6, seed % 7, 0.5 + seed) for seed in range(40)]
    matrices, points = (np.stack(part) for part in zip(*rows, strict=True))
    together = project_to_ball(matrices, points, 1.0)
    for i in range(len(rows)):
        alone = project_to_ball(matrices[i : i + 1], points[i : i + 1], 1.0)
        assert alone.tobytes() == together[i : i + 1].tobytes()


def test_the_argument_is_left_alone():
    matrix, point = example(1, 3, 1, 5.0)
    before = point.copy()
    project_to_ball(matrix[None], point[None], 1.0)
    np.testing.assert_array_equal(point, before)
