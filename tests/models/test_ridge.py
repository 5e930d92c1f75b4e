"""Ridge regressions of a population: after any history, what batch computation gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.models import ridge as module
from fedbandits.models.ridge import RidgeModels, solve
from fedbandits.models.statistics import Statistics

N, D, RIDGE = 4, 3, 0.5


def assert_consistent(models, tolerance=1e-9):
    """inverse, theta, logdet and growth follow from the statistics, by fresh factorisations."""
    base, fresh = models.base, models.fresh
    eye = models.ridge * np.eye(models.dim)
    V = base.gram + fresh.gram + eye
    moment = base.moment + fresh.moment
    np.testing.assert_allclose(models.inverse, np.linalg.inv(V), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(models.theta, np.linalg.solve(V, moment[..., None])[..., 0], atol=tolerance)
    np.testing.assert_allclose(models.logdet, np.linalg.slogdet(V)[1], atol=tolerance)
    settled = np.linalg.slogdet(base.gram + eye)[1]
    np.testing.assert_allclose(models.growth, np.linalg.slogdet(V)[1] - settled, atol=tolerance)
    np.testing.assert_array_equal(models.inverse, models.inverse.swapaxes(1, 2))


def observe(models, who, rng):
    arms = rng.standard_normal((len(who), 2, models.dim))
    models.learn(who, arms, rng.integers(2, size=len(who)), rng.standard_normal(len(who)))


def random_statistics(rows, rng):
    x = rng.standard_normal((rows, 6, D))
    return np.einsum("mti,mtj->mij", x, x), rng.standard_normal((rows, D)), np.full(rows, 6.0)


who_lists = st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True)
actions = st.lists(st.tuples(st.sampled_from(["learn", "settle", "replace", "absorb", "tell"]), who_lists), max_size=12)


@given(actions, st.integers(0, 2**20))
def test_any_history_equals_batch_computation(history, seed):
    rng = np.random.default_rng(seed)
    models = RidgeModels(N, D, RIDGE)
    for action, who in history:
        who = np.array(who)
        if action == "learn":
            observe(models, who, rng)
        elif action == "settle":
            models.settle(who)
        elif action == "tell":  # one pool shown to everybody
            gram, moment, count = random_statistics(1, rng)
            w = len(who)
            models.replace(
                who, np.broadcast_to(gram, (w, D, D)), np.broadcast_to(moment, (w, D)), np.broadcast_to(count, w)
            )
        else:
            getattr(models, action)(who, *random_statistics(len(who), rng))
        assert_consistent(models)


def test_settling_changes_nothing_known():
    rng = np.random.default_rng(0)
    models = RidgeModels(N, D, RIDGE)
    for _ in range(5):
        observe(models, np.arange(N), rng)
    before = models.inverse.copy(), models.theta.copy(), models.logdet.copy()
    models.settle(np.array([1, 2]))
    for array, old in zip((models.inverse, models.theta, models.logdet), before, strict=True):
        np.testing.assert_array_equal(array, old)
    assert models.growth[[1, 2]].tolist() == [0, 0]
    assert (models.growth[[0, 3]] > 0).all()
    assert models.fresh.count.tolist() == [5, 0, 0, 5]
    assert models.base.count.tolist() == [0, 5, 5, 0]


def test_what_is_handed_over_is_what_was_fresh():
    rng = np.random.default_rng(4)
    models = RidgeModels(N, D, RIDGE)
    models.replace(np.arange(N), *random_statistics(N, rng))
    for _ in range(3):
        observe(models, np.arange(N), rng)
    who = np.array([2, 0])
    base, fresh = ([array.copy() for array in sums] for sums in (models.base, models.fresh))
    handed = models.hand_over(who)
    for sent, new, settled, before in zip(handed, fresh, models.base, base, strict=True):
        np.testing.assert_array_equal(sent, new[who])
        np.testing.assert_array_equal(settled[who], before[who] + new[who])
        np.testing.assert_array_equal(settled[[1, 3]], before[[1, 3]])
    assert models.fresh.count.tolist() == [0, 3, 0, 3]
    kept = handed.gram.copy()
    observe(models, np.arange(N), rng)
    again = models.hand_over(who)  # a message that somebody holds is not written over
    np.testing.assert_array_equal(handed.gram, kept)
    assert (again.gram != kept).any()
    assert again.named(counted=False).keys() == {"gram", "moment"}


def test_a_model_that_does_not_exist_is_refused():
    models = RidgeModels(N, D, RIDGE)
    for act in (models.settle, lambda who: models.absorb(who, *random_statistics(1, np.random.default_rng(0)))):
        with pytest.raises(IndexError):
            act(np.array([N]))


@pytest.mark.parametrize("adding", [False, True])
def test_nobody_learns_other_bits_than_alone(adding):
    """Whoever has nothing of its own and is told the same is computed once, and nobody can tell."""
    rng = np.random.default_rng(5)
    models = RidgeModels(N, D, RIDGE)
    observe(models, np.array([1, 3]), rng)
    gram, moment, count = random_statistics(1, rng)
    alone = [RidgeModels(1, D, RIDGE) for _ in range(N)]
    for i, one in enumerate(alone):
        for mine, all_of_us in zip((*one.fresh, *one.base), (*models.fresh, *models.base), strict=True):
            mine[:] = all_of_us[i : i + 1]
        (one.absorb if adding else one.replace)(np.zeros(1, dtype=np.int64), gram, moment, count)
    shown = (np.broadcast_to(gram, (N, D, D)), np.broadcast_to(moment, (N, D)), np.broadcast_to(count, N))
    (models.absorb if adding else models.replace)(np.arange(N), *shown)
    for i, one in enumerate(alone):
        for name in ("inverse", "theta", "logdet", "growth"):
            assert getattr(models, name)[i].tobytes() == getattr(one, name)[0].tobytes()


def test_shares_are_pooled_compared_and_copied():
    rng = np.random.default_rng(6)
    pools, known = Statistics(2, D), Statistics(N, D)
    shares = random_statistics(3, rng)
    assert not pools.merge_all(1, *shares)
    for pool, share in zip(pools, shares, strict=True):
        np.testing.assert_array_equal(pool[1], share.sum(axis=0))
        assert not pool[0].any()
    scattered = Statistics(2, D)
    scattered.scatter(np.array([1, 0, 1]), *shares)
    for pool, share in zip(scattered, shares, strict=True):
        np.testing.assert_array_equal(pool, np.stack([share[1], share[0] + share[2]]))
    assert pools.merge_all(1, -shares[0][:1], -shares[1][:1], -shares[2][:1])  # something was taken out
    known.merge(np.arange(N), *random_statistics(N, rng))
    who, rows = np.array([3, 1]), np.array([1, 0])
    lacking = known.lacking(who, pools, rows, counted=True)
    for name, pool, mine in zip(("gram", "moment", "count"), pools, known, strict=True):
        np.testing.assert_array_equal(lacking[name], pool[rows] - mine[who])
    assert "count" not in known.lacking(who, pools, rows, counted=False)
    known.copy_from(who, pools, rows)
    np.testing.assert_array_equal(known.gram[who], pools.gram[rows])
    assert known.count.tolist() == [6, 0, 6, 12]
    with pytest.raises(IndexError):
        known.copy_from(np.array([0]), pools, np.array([2]))


def test_replacing_keeps_what_was_observed_since():
    rng = np.random.default_rng(1)
    models = RidgeModels(N, D, RIDGE)
    observe(models, np.arange(N), rng)
    fresh = models.fresh.gram.copy()
    gram, moment, count = random_statistics(N, rng)
    models.replace(np.arange(N), gram, moment, count)
    np.testing.assert_array_equal(models.fresh.gram, fresh)
    np.testing.assert_array_equal(models.base.gram, gram)
    assert (models.growth > 0).all()


def test_ten_thousand_updates_equal_a_fresh_factorisation(monkeypatch):
    """To 1e-8 without any refresh on the way, hence with refreshes all the more."""
    monkeypatch.setattr(module, "REFRESH_EVERY", 10**9)
    rng = np.random.default_rng(2)
    models = RidgeModels(2, 10, 1.0)
    who, picks = np.arange(2), np.zeros(2, dtype=np.int64)
    for _ in range(10_000):
        x = rng.standard_normal((2, 1, 10))
        models.learn(who, x / np.linalg.norm(x, axis=2, keepdims=True), picks, rng.standard_normal(2))
    assert models.updates.tolist() == [10_000, 10_000]
    assert_consistent(models, 1e-8)


def test_refreshes_happen_on_time_and_for_those_who_are_due(monkeypatch):
    monkeypatch.setattr(module, "REFRESH_EVERY", 3)
    rng = np.random.default_rng(3)
    models = RidgeModels(2, D, RIDGE)
    for who in ([0], [0, 1], [0], [0]):
        observe(models, np.array(who), rng)
        assert_consistent(models)
    assert models.updates.tolist() == [1, 1]


def test_choice_is_the_highest_optimistic_index():
    rng = np.random.default_rng(4)
    models = RidgeModels(N, D, RIDGE)
    for _ in range(4):
        observe(models, np.arange(N), rng)
    who = np.array([3, 1])
    arms = rng.standard_normal((2, 30, D))
    width = np.array([0.3, 2.0])
    norms = np.sqrt(np.einsum("wki,wij,wkj->wk", arms, models.inverse[who], arms))
    scores = np.einsum("wki,wi->wk", arms, models.theta[who]) + width[:, None] * norms
    np.testing.assert_array_equal(models.choose(who, arms, width), scores.argmax(axis=1))


def test_equal_arms_tie_and_the_first_wins():
    models = RidgeModels(1, D, RIDGE)
    observe(models, np.array([0]), np.random.default_rng(5))
    x = np.array([0.3, -0.7, 0.2])
    arms = np.stack([x * 0.1, x, x, x])[None]
    assert models.choose(np.array([0]), arms, np.array([1.0])).tolist() == [1]


class TestSolve:
    @settings(max_examples=20)
    @given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6))
    def test_equals_numpy(self, d, m, seed):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((m, 8, d))
        gram, moment = x.swapaxes(1, 2) @ x, rng.standard_normal((m, d))
        inverse, theta, logdet = solve(gram, moment, 0.7)
        V = gram + 0.7 * np.eye(d)
        np.testing.assert_allclose(inverse, np.linalg.inv(V), atol=1e-10)
        np.testing.assert_allclose(theta, np.linalg.solve(V, moment[..., None])[..., 0], atol=1e-10)
        np.testing.assert_allclose(logdet, np.linalg.slogdet(V)[1], atol=1e-10)

    def test_one_pool_for_everybody_gives_the_bits_of_each_alone(self):
        rng = np.random.default_rng(6)
        gram, moment, _ = random_statistics(1, rng)
        shared = solve(np.broadcast_to(gram, (5, D, D)), np.broadcast_to(moment, (5, D)), RIDGE)
        copied = solve(np.repeat(gram, 5, axis=0), np.repeat(moment, 5, axis=0), RIDGE)
        alone = solve(gram, moment, RIDGE)
        for one, two, three in zip(shared, copied, alone, strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(one[:1], three)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_memory_layout_does_not_matter(self, order):
        rng = np.random.default_rng(7)
        gram, moment, _ = random_statistics(3, rng)
        given = np.array(gram, order=order)
        given.flags.writeable = False
        np.testing.assert_array_equal(solve(given, moment, RIDGE)[0], solve(gram, moment, RIDGE)[0])

    def test_what_is_not_positive_definite_is_refused(self):
        with pytest.raises(ValueError, match=r"row 1: .*not positive definite"):
            solve(np.stack([np.eye(2), -np.eye(2)]), np.zeros((2, 2)), 0.5)


def test_statistics_merge_by_addition():
    rng = np.random.default_rng(8)
    statistics = Statistics(N, D)
    gram, moment, count = random_statistics(2, rng)
    who = np.array([2, 0])
    statistics.merge(who, gram, moment, count)
    statistics.merge(who, gram, moment, count)
    np.testing.assert_allclose(statistics.gram[who], 2 * gram)
    np.testing.assert_allclose(statistics.moment[who], 2 * moment)
    assert statistics.count.tolist() == [12, 0, 12, 0]
    statistics.clear(np.array([2]))
    assert not statistics.gram[2].any()
    assert statistics.count.tolist() == [12, 0, 0, 0]
