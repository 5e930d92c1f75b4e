"""Models as values: gradients against differences, limits, inner maxima, and beliefs about candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.models.candidates import Belief, CandidateModels, linear_prior, updated
from fedbandits.models.differentiable import Hill, Model, Rectifier, Sigmoid, Waves, model_of
from fedbandits.models.inner_maxima import centred, one_step, refined
from fedbandits.models.observations import Observations


class Linear(Model):
    """<w, x>."""

    def parameters(self, dim):
        """See `Model`."""
        return dim

    def values(self, w, x):
        """See `Model`."""
        return x @ w

    def gradients(self, w, x):
        """See `Model`."""
        return np.broadcast_to(x, (len(x), len(w))).copy()


MODELS = [
    Sigmoid(),
    Sigmoid(width=3),
    Rectifier(width=5),
    Rectifier(width=4, layers=2),
    Waves(width=3),
    Hill(),
    Linear(),
]


def test_sizes_are_the_publications():
    assert [Sigmoid().parameters(dim) for dim in (6, 8, 9, 10)] == [201, 251, 276, 301]
    assert isinstance(model_of("rectifier", width=3, layers=2), Rectifier)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_differences(model):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((6, 4)), rng.standard_normal(model.parameters(4))
    step = 1e-6
    found = np.empty((6, len(w)))
    for place in range(len(w)):
        moved = [w.copy(), w.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        found[:, place] = (model.values(moved[0], x) - model.values(moved[1], x)) / (2 * step)
    np.testing.assert_allclose(model.gradients(w, x), found, atol=1e-6)


@pytest.mark.parametrize("model", MODELS[:-1])
def test_nothing_exceeds_the_limits(model):
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, w = 2 * rng.standard_normal((5, 3)), 3 * rng.standard_normal(model.parameters(3))
        value, slope = model.limits(np.linalg.norm(w), np.linalg.norm(x, axis=1).max())
        assert np.abs(model.values(w, x)).max() <= value
        assert np.linalg.norm(model.gradients(w, x), axis=1).max() <= slope


@pytest.mark.parametrize("model", MODELS)
def test_slopes_are_sums_over_what_was_observed(model):
    rng = np.random.default_rng(2)
    data, who = Observations(3, 4, 5), np.arange(3)
    for _ in range(4):
        data.add(who, rng.standard_normal((3, 2, 4)), np.array([0, 1, 0]), rng.standard_normal(3))
    theta, end = rng.standard_normal((1, model.parameters(4))), np.array([4, 0, 2])
    found = model.slopes(theta, data, who, end)
    for i in who:
        x, y = data.arms[i, :, : end[i]].T, data.rewards[i, : end[i]]
        want = (model.values(theta[0], x) - y) @ model.gradients(theta[0], x) if end[i] else 0.0
        np.testing.assert_allclose(found[i], want, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_inner_maxima_lie_in_the_ellipsoid_and_do_not_fall(model):
    rng = np.random.default_rng(3)
    arms, w = rng.standard_normal((7, 3)), rng.standard_normal(model.parameters(3))
    g = model.gradients(w, rng.standard_normal((9, 3)))
    V, radius = np.eye(len(w)) + g.T @ g, 1.3
    inverse = np.linalg.inv(V)
    first, there = one_step(model, w, inverse, radius, arms)
    best, points = refined(model, w, inverse, radius, arms)
    assert (first <= best + 1e-9).all()
    for gap in (there - w, points - w):
        assert (np.einsum("kp,pq,kq->k", gap, V, gap) <= radius**2 * (1 + 1e-9)).all()
    if isinstance(model, Linear):
        np.testing.assert_allclose(best, centred(model, w, inverse, radius, arms), atol=1e-9)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_beliefs_are_ridge_regressions(seed, turns):
    rng = np.random.default_rng(seed)
    G, f, ridge = rng.standard_normal((6, 9)), rng.standard_normal(6), 0.3
    models, prior = CandidateModels(1, 6), linear_prior(f, G, ridge)
    who = np.zeros(1, dtype=np.int64)
    models.tell(who, [prior])
    places, rewards = rng.integers(6, size=turns), rng.standard_normal(turns)
    for place, reward in zip(places, rewards, strict=True):
        models.learn(who, np.array([place]), np.array([reward]))
    x = G[places]
    V = ridge * np.eye(9) + x.T @ x
    theta = np.linalg.solve(V, x.T @ (rewards - f[places]))
    np.testing.assert_allclose(models.mean[0], f + G @ theta, atol=1e-10)
    np.testing.assert_allclose(models.spread[0], G @ np.linalg.solve(V, G.T), atol=1e-10)
    np.testing.assert_allclose(models.growth[0], np.linalg.slogdet(V / ridge)[1], atol=1e-9)
    count = np.bincount(places, minlength=6).astype(float)
    at_once, growth, misfit = updated(prior, count, np.bincount(places, rewards, minlength=6))
    np.testing.assert_allclose(at_once.mean, models.mean[0], atol=1e-10)
    np.testing.assert_allclose(at_once.spread, models.spread[0], atol=1e-10)
    np.testing.assert_allclose(growth, models.growth[0], atol=1e-9)
    seen = np.flatnonzero(count)
    gaps = np.bincount(places, rewards, minlength=6)[seen] / count[seen] - f[seen]
    covariance = (G @ G.T / ridge)[np.ix_(seen, seen)] + np.diag(1 / count[seen])
    np.testing.assert_allclose(misfit, gaps @ np.linalg.solve(covariance, gaps), rtol=1e-8)


def test_what_was_handed_over_last_comes_back_and_nothing_else():
    rng = np.random.default_rng(5)
    models, who = CandidateModels(2, 4), np.arange(2)
    belief = Belief(np.zeros(4), np.eye(4))
    models.tell(who, [belief, belief])
    for turn in range(6):
        models.learn(who, rng.integers(4, size=2), rng.standard_normal(2))
        if turn == 2:
            models.hand_over(who)
    growth, fresh = models.growth.copy(), models.fresh.count.copy()
    mean, spread = models.mean.copy(), models.spread.copy()
    models.hand_over(who)
    assert not models.growth.any()
    models.take_back(who)
    np.testing.assert_allclose(models.growth, growth, atol=1e-12)
    np.testing.assert_array_equal(models.fresh.count, fresh)
    np.testing.assert_allclose(models.mean, mean, atol=1e-12)
    np.testing.assert_allclose(models.spread, spread, atol=1e-12)


def test_the_misfit_of_draws_from_a_belief_is_what_their_scale_says():
    """Rewards that are `scale` times as far from what was believed as the belief has it."""
    rng, ridge, scale = np.random.default_rng(6), 0.05, 3.0
    roots = rng.standard_normal((40, 12))
    kernel = roots @ roots.T + np.eye(40)
    belief = Belief(rng.standard_normal(40), kernel / ridge)
    count = np.full(40, 4.0)
    found = []
    for _ in range(200):
        means = belief.mean + scale * np.linalg.cholesky(kernel) @ rng.standard_normal(40)
        total = count * means + scale * np.sqrt(ridge * count) * rng.standard_normal(40)
        found.append(updated(belief, count, total).misfit / (ridge * 40))
    assert np.sqrt(np.mean(found)) == pytest.approx(scale, rel=0.05)
