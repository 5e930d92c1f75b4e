"""Triangular systems held row by row: against scipy, and the same bits wherever a right-hand side stands and in however
many steps rows are solved for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from fedbandits.linalg.triangular import forward


def system(t, width, seed=0):
    rng = np.random.default_rng(seed)
    L = np.tril(rng.normal(size=(t, t))) / np.sqrt(max(t, 1)) + 2 * np.eye(t)
    return L, L[np.tril_indices(t)], rng.normal(size=(t, width))


@pytest.mark.parametrize("t", [0, 1, 3, 4, 5, 30, 101])
@pytest.mark.parametrize("width", [1, 7, 20])
def test_it_solves(t, width):
    L, packed, work = system(t, width)
    expected = solve_triangular(L, work, lower=True) if t else work.copy()
    forward(packed, t, work)
    np.testing.assert_allclose(work, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("t", [3, 37, 130])
def test_a_column_is_the_same_beside_whichever_others_it_stands(t):
    _, packed, work = system(t, 40)
    whole = work.copy()
    forward(packed, t, whole)
    for width in range(1, 40):
        for first in (0, 40 - width):
            part = np.ascontiguousarray(work[:, first : first + width])
            forward(packed, t, part)
            np.testing.assert_array_equal(part, whole[:, first : first + width])


@pytest.mark.parametrize("width", [1, 3, 6, 20])
def test_rows_that_were_solved_for_before_change_no_bit(width):
    _, packed, work = system(61, width)
    whole = work.copy()
    forward(packed, 61, whole)
    for first in range(62):
        steps = work.copy()
        forward(packed, first, steps)
        np.testing.assert_array_equal(steps[first:], work[first:])  # what follows is left alone
        forward(packed, 61, steps, first)
        np.testing.assert_array_equal(steps, whole)


@pytest.mark.parametrize(("count", "first"), [(5, 0), (4, 5), (4, -1)])
def test_rows_that_are_not_there_are_refused(count, first):
    _, packed, work = system(4, 2)
    with pytest.raises(ValueError, match="fewer rows"):
        forward(packed, count, work, first)
