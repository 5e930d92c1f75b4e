"""Statistics that were settled, and are new again."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg.semidefinite import nearest_semidefinite
from fedbandits.models.ridge import RidgeModels

DIM = 4


def observed(models: RidgeModels, turns: int, seed: int = 0) -> RidgeModels:
    rng, who = np.random.default_rng(seed), np.arange(len(models))
    for _ in range(turns):
        models.learn_chosen(who, rng.standard_normal((len(who), DIM)), rng.standard_normal(len(who)))
    return models


def test_unsettling_is_the_inverse_of_settling():
    models, who = observed(RidgeModels(3, DIM, 0.5), 6), np.array([0, 2])
    models.settle(np.arange(3))
    observed(models, 4, seed=1)
    before, handed = models.state(), [array[who].copy() for array in models.fresh]
    models.settle(who)
    models.unsettle(who, *handed)
    for name, array in models.state().items():
        np.testing.assert_allclose(array, before[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_what_was_observed_since_stays_on_top():
    models, who = observed(RidgeModels(2, DIM, 1.0), 5), np.arange(2)
    handed = [array.copy() for array in models.fresh]
    models.settle(who)
    observed(models, 3, seed=1)
    models.unsettle(who, *handed)
    untouched = observed(observed(RidgeModels(2, DIM, 1.0), 5), 3, seed=1)
    for name, array in models.state().items():
        np.testing.assert_allclose(array, untouched.state()[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_more_than_was_settled_leaves_nothing_and_estimates_follow():
    """Rounded statistics may be more than what they were made of."""
    models, who = observed(RidgeModels(1, DIM, 0.1), 5), np.zeros(1, np.int64)
    gram, moment, count = (array.copy() for array in models.fresh)
    models.settle(who)
    models.unsettle(who, gram + 3 * np.eye(DIM), moment, count)
    assert np.linalg.eigvalsh(models.base.gram[0]).min() >= -1e-12
    np.testing.assert_allclose(models.inverse @ models.matrices(), np.eye(DIM)[None], atol=1e-9)
    assert models.growth[0] > 0


def test_what_is_not_finite_changes_nothing():
    models, who = observed(RidgeModels(1, DIM, 0.1), 5), np.zeros(1, np.int64)
    before = models.state()
    with pytest.raises(ValueError, match="not finite"):
        models.unsettle(who, np.full((1, DIM, DIM), np.nan), np.zeros((1, DIM)), np.ones(1))
    for name, array in models.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_semidefinite_matrices_are_left_as_they_are():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((3, DIM, DIM))
    square = factors @ factors.swapaxes(1, 2)
    assert nearest_semidefinite(square) is square
    off = square - 5.0 * np.eye(DIM)
    mended = nearest_semidefinite(off)
    assert np.linalg.eigvalsh(mended).min() >= -1e-9
    np.testing.assert_array_equal(nearest_semidefinite(off, 100.0), off)
