from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits
from fedbandits.linalg import kernels

sizes = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 20, 21, 23, 29, 41])
arm_counts = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 19, 20, 25, 37])
seeds = st.integers(0, 2**32 - 1)
modest = settings(max_examples=60, deadline=None)


class Population:
    """n agents that have each seen `seen` random pairs, from numpy alone."""

    def __init__(self, seed: int, n: int, d: int, seen: int = 0, ridge: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        x = self.rng.standard_normal((n, seen, d)) / np.sqrt(d)
        y = self.rng.standard_normal((n, seen))
        self.gram = np.ascontiguousarray(x.transpose(0, 2, 1) @ x)
        self.gram = (self.gram + self.gram.transpose(0, 2, 1)) / 2
        self.moment = (y[:, None, :] @ x)[:, 0, :].copy()
        self.count = np.full(n, float(seen))
        full = self.gram + ridge * np.eye(d)
        inverse = np.linalg.inv(full)
        self.inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
        self.theta = (self.inverse @ self.moment[:, :, None])[:, :, 0].copy()
        self.logdet = np.linalg.slogdet(full)[1]
        self.n, self.d = n, d

    def copy(self) -> Population:
        other = object.__new__(Population)
        other.__dict__ = {
            key: value.copy() if isinstance(value, np.ndarray) else value for key, value in self.__dict__.items()
        }
        return other

    def awake(self, w: int) -> np.ndarray:
        return self.rng.permutation(self.n)[:w].astype(np.int64)

    def lanes(self, w: int, arms: int) -> np.ndarray:
        return self.rng.standard_normal((w, self.d, arms))

    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.inverse, self.theta, self.logdet, self.gram, self.moment, self.count)


def expected_scores(p: Population, width: np.ndarray, who: np.ndarray, lanes: np.ndarray):
    rows = []
    for a, i in enumerate(who):
        x = lanes[a].T
        spread = np.diag(x @ p.inverse[i] @ x.T)
        rows.append(x @ p.theta[i] + width[a] * np.sqrt(np.maximum(spread, 0.0)))
    return np.array(rows)


@modest
@given(seeds, sizes, arm_counts, st.integers(1, 5))
def test_scores_and_picks_follow_the_formula(seed: int, d: int, arms: int, w: int) -> None:
    p = Population(seed, 6, d, seen=3)
    who, width, lanes = p.awake(w), p.rng.uniform(0, 3, w), p.lanes(w, arms)
    scores = kernels.scores_optimistic(p.inverse, p.theta, width, who, lanes)
    np.testing.assert_allclose(scores, expected_scores(p, width, who, lanes), rtol=1e-11, atol=1e-11)
    picks = kernels.pick_optimistic(p.inverse, p.theta, width, who, lanes)
    assert picks.dtype == np.int64
    np.testing.assert_array_equal(picks, scores.argmax(1))
    greedy = kernels.pick_greedy(p.theta[who], lanes)
    np.testing.assert_array_equal(greedy, np.einsum("wd,wdk->wk", p.theta[who], lanes).argmax(1))
    np.testing.assert_array_equal(kernels.chosen(lanes, picks), np.array([lanes[a, :, k] for a, k in enumerate(picks)]))


@modest
@given(seeds, sizes, arm_counts)
def test_equal_arms_tie_and_the_lowest_index_wins(seed: int, d: int, arms: int) -> None:
    p = Population(seed, 2, d, seen=3)
    who, width = np.array([1, 0]), np.array([0.5, 2.0])
    lanes = np.repeat(p.lanes(2, 1), arms, axis=2)
    scores = kernels.scores_optimistic(p.inverse, p.theta, width, who, lanes)
    assert np.all(scores == scores[:, :1])
    assert kernels.pick_optimistic(p.inverse, p.theta, width, who, lanes).tolist() == [0, 0]
    assert kernels.pick_greedy(p.theta, lanes).tolist() == [0, 0]
    first = arms // 2
    lanes[:, :, :first] = 0.0
    theta = np.ascontiguousarray(lanes[::-1, :, -1])
    assert kernels.pick_optimistic(p.inverse, theta, width, who, lanes).tolist() == [first] * 2
    assert kernels.pick_greedy(theta[::-1].copy(), lanes).tolist() == [first] * 2


@pytest.mark.parametrize("arms", [1, 3, 4, 9, 20])
@pytest.mark.parametrize("flaw", [np.nan, np.inf, -np.inf])
def test_an_arm_that_is_not_finite_leaves_its_agent_undecided(arms: int, flaw: float) -> None:
    p = Population(0, 1, 5, seen=2)
    who, width = np.array([0]), np.array([1.0])
    for bad in range(arms):
        lanes = p.lanes(1, arms)
        lanes[0, 2, bad] = flaw
        picks = kernels.pick_optimistic(p.inverse, p.theta, width, who, lanes)
        assert picks[0] == -1
        assert kernels.pick_greedy(p.theta, lanes)[0] == -1
        with pytest.raises(IndexError):
            kernels.chosen(lanes, picks)
    # A broken model must show, too, even if the mean is fine.
    broken = np.full_like(p.inverse, np.nan)
    assert kernels.pick_optimistic(broken, p.theta, width, who, p.lanes(1, arms))[0] == -1


def test_as_lanes_is_a_view_where_it_can_be() -> None:
    rng = np.random.default_rng(0)
    buffer = rng.standard_normal((3, 4, 7))
    assert np.shares_memory(kernels.as_lanes(buffer.transpose(0, 2, 1)), buffer)
    for arms in (
        rng.standard_normal((3, 7, 4)),
        rng.standard_normal((6, 7, 8))[::2, :, ::2],
        rng.standard_normal((3, 7, 4)).astype(np.float32),
    ):
        lanes = kernels.as_lanes(arms)
        assert lanes.flags.c_contiguous
        assert lanes.dtype == np.float64
        np.testing.assert_array_equal(lanes, arms.transpose(0, 2, 1))
        p = Population(1, 3, 4, seen=3)
        who, width = np.arange(3), np.ones(3)
        np.testing.assert_allclose(
            kernels.scores_optimistic(p.inverse, p.theta, width, who, lanes),
            expected_scores(p, width, who, arms.transpose(0, 2, 1).astype(float)),
        )


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (7, 20, 20), (100, 20, 20)])
def test_aligned_arrays_begin_at_a_cache_line(shape: tuple[int, ...]) -> None:
    kept = [kernels.aligned(shape) for _ in range(5)]
    for array in kept:
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.shape == shape
        assert array.dtype == np.float64
        assert not array.any()


@pytest.mark.parametrize("d", [1, 3, 6, 20])
def test_many_updates_stay_with_a_fresh_factorisation(d: int) -> None:
    n, ridge = 2, 0.7
    p = Population(d, n, d, ridge=ridge)
    who = np.arange(n)
    total_gain = np.zeros(n)
    for _ in range(10_000):
        x = p.rng.standard_normal((n, d)) / np.sqrt(d)
        y = p.rng.standard_normal(n)
        total_gain += kernels.rank_one(p.inverse, p.theta, p.logdet, who, x, y)
        kernels.accumulate(p.gram, p.moment, p.count, who, x, y)
    assert p.count.tolist() == [10_000.0] * n
    for i in range(n):
        full = p.gram[i] + ridge * np.eye(d)
        factor = scipy.linalg.cho_factor(full, lower=True)
        np.testing.assert_allclose(p.inverse[i], scipy.linalg.cho_solve(factor, np.eye(d)), rtol=0, atol=1e-8)
        np.testing.assert_allclose(p.theta[i], scipy.linalg.cho_solve(factor, p.moment[i]), rtol=0, atol=1e-8)
        assert abs(p.logdet[i] - np.linalg.slogdet(full)[1]) < 1e-8
        assert abs(total_gain[i] - p.logdet[i] + d * np.log(ridge)) < 1e-8
        assert np.array_equal(p.inverse[i], p.inverse[i].T)
        assert np.array_equal(p.gram[i], p.gram[i].T)


@modest
@given(seeds, sizes, st.integers(1, 4))
def test_one_update_follows_the_formula(seed: int, d: int, w: int) -> None:
    p = Population(seed, 5, d, seen=4)
    before = p.copy()
    who = p.awake(w)
    x, y = p.rng.standard_normal((w, d)), p.rng.standard_normal(w)
    gain = kernels.rank_one(p.inverse, p.theta, p.logdet, who, x, y)
    kernels.accumulate(p.gram, p.moment, p.count, who, x, y)
    for a, i in enumerate(who):
        u = before.inverse[i] @ x[a]
        q = x[a] @ u
        np.testing.assert_allclose(p.inverse[i], before.inverse[i] - np.outer(u, u) / (1 + q), atol=1e-12)
        error = y[a] - before.theta[i] @ x[a]
        np.testing.assert_allclose(p.theta[i], before.theta[i] + u * error / (1 + q), atol=1e-12)
        np.testing.assert_allclose(gain[a], np.log1p(q), rtol=1e-12)
        np.testing.assert_allclose(p.logdet[i], before.logdet[i] + np.log1p(q), atol=1e-12)
        np.testing.assert_allclose(p.gram[i], before.gram[i] + np.outer(x[a], x[a]), atol=1e-12)
        np.testing.assert_allclose(p.moment[i], before.moment[i] + y[a] * x[a], atol=1e-12)
        assert p.count[i] == before.count[i] + 1
    asleep = np.setdiff1d(np.arange(5), who)
    for now, then in zip(p.arrays(), before.arrays(), strict=True):
        assert np.array_equal(now[asleep], then[asleep])
    assert np.array_equal(p.inverse, p.inverse.transpose(0, 2, 1))
    assert np.array_equal(p.gram, p.gram.transpose(0, 2, 1))


@modest
@given(seeds, sizes, arm_counts)
def test_observe_is_its_parts_to_the_bit(seed: int, d: int, arms: int) -> None:
    p = Population(seed, 4, d, seen=2)
    q = p.copy()
    who, lanes = p.awake(3), p.lanes(3, arms)
    picks, y = p.rng.integers(0, arms, 3), p.rng.standard_normal(3)
    gain = kernels.observe(*p.arrays(), who, lanes, picks, y)
    x = kernels.chosen(lanes, picks)
    parts = kernels.rank_one(q.inverse, q.theta, q.logdet, who, x, y)
    kernels.accumulate(q.gram, q.moment, q.count, who, x, y)
    assert np.array_equal(gain, parts)
    for one, other in zip(p.arrays(), q.arrays(), strict=True):
        assert np.array_equal(one, other)


@modest
@given(seeds, sizes, arm_counts)
def test_batch_and_one_by_one_agree_to_the_bit(seed: int, d: int, arms: int) -> None:
    n = 5
    together = Population(seed, n, d, seen=3)
    alone = together.copy()
    single = [tuple(array[i : i + 1].copy() for array in together.arrays()) for i in range(n)]
    who, lanes = together.awake(n), together.lanes(n, arms)
    width, y = together.rng.uniform(0, 2, n), together.rng.standard_normal(n)
    z = together.rng.standard_normal((n, d))
    scores = kernels.scores_optimistic(together.inverse, together.theta, width, who, lanes)
    picks = kernels.pick_optimistic(together.inverse, together.theta, width, who, lanes)
    gain = kernels.observe(*together.arrays(), who, lanes, picks, y)
    fresh = kernels.factorise(together.gram, together.moment, 0.5)
    logdet = kernels.log_determinants(together.gram, 0.5)
    sample = kernels.sample_gaussian(together.theta, together.inverse, who, 0.3, z)
    greedy = kernels.pick_greedy(sample, lanes)
    nobody = np.zeros(1, np.int64)
    for a in reversed(range(n)):
        i = who[a]
        # Once within the population, once as a population of one.
        for arrays, me in ((alone.arrays(), who[a : a + 1]), (single[i], nobody)):
            row, b = lanes[a : a + 1].copy(), slice(a, a + 1)
            assert np.array_equal(kernels.scores_optimistic(*arrays[:2], width[b], me, row), scores[b])
            assert np.array_equal(kernels.pick_optimistic(*arrays[:2], width[b], me, row), picks[b])
            assert np.array_equal(kernels.observe(*arrays, me, row, picks[b], y[b]), gain[b])
            one = kernels.sample_gaussian(arrays[1], arrays[0], me, 0.3, z[b])
            assert np.array_equal(one, sample[b])
            assert np.array_equal(kernels.pick_greedy(one, row), greedy[b])
        _, _, _, gram, moment, _ = single[i]
        for one, all_of_them in zip(kernels.factorise(gram, moment, 0.5), fresh, strict=True):
            assert np.array_equal(one[0], all_of_them[i])
        assert kernels.log_determinants(gram, 0.5)[0] == logdet[i]
    for one, other in zip(together.arrays(), alone.arrays(), strict=True):
        assert np.array_equal(one, other)


@modest
@given(seeds, sizes, st.floats(0.01, 100.0))
def test_factorise_agrees_with_lapack(seed: int, d: int, ridge: float) -> None:
    p = Population(seed, 3, d, seen=2 * d)
    lower_only = np.tril(p.gram) + np.triu(np.full((d, d), np.nan), 1)
    inverse, theta, logdet = kernels.factorise(lower_only, p.moment, ridge)
    assert np.array_equal(inverse, inverse.transpose(0, 2, 1))
    assert np.array_equal(kernels.log_determinants(lower_only, ridge), logdet)
    for i in range(3):
        full = p.gram[i] + ridge * np.eye(d)
        factor = scipy.linalg.cho_factor(full, lower=True)
        expected = scipy.linalg.cho_solve(factor, np.eye(d))
        np.testing.assert_allclose(inverse[i], expected, rtol=1e-9, atol=1e-11 / ridge)
        np.testing.assert_allclose(theta[i], scipy.linalg.cho_solve(factor, p.moment[i]), rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(logdet[i], np.linalg.slogdet(full)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("flaw", ["indefinite", "nan", "inf", "moment", "ridge"])
@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_what_cannot_be_factorised_is_named(flaw: str, d: int) -> None:
    p = Population(0, 4, d, seen=2 * d)
    ridge = 1.0
    if flaw == "indefinite":
        p.gram[2, -1, -1] = -5.0
    elif flaw == "nan":
        p.gram[2, -1, 0] = np.nan
    elif flaw == "inf":
        p.gram[2, -1, 0] = np.inf
    elif flaw == "moment":
        p.moment[2, 0] = np.nan
    else:
        ridge = np.nan
    before = p.copy()
    name = "row 0" if flaw == "ridge" else "row 2"
    with pytest.raises(ValueError, match=name):
        kernels.factorise(p.gram, p.moment, ridge)
    if flaw != "moment":
        with pytest.raises(ValueError, match=name):
            kernels.log_determinants(p.gram, ridge)
    np.testing.assert_array_equal(p.gram, before.gram)
    np.testing.assert_array_equal(p.moment, before.moment)


@modest
@given(seeds, sizes)
def test_samples_have_mean_theta_and_covariance_inverse(seed: int, d: int) -> None:
    p = Population(seed, 3, d, seen=4)
    scale = 1.7
    for i in range(3):
        who = np.full(d, i)
        shifts = kernels.sample_gaussian(p.theta, p.inverse, who, scale, np.eye(d)) - p.theta[i]
        factor = shifts.T / scale
        np.testing.assert_allclose(factor @ factor.T, p.inverse[i], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(np.triu(factor, 1), 0.0, atol=1e-15)
        # Linear in z, hence the covariance of a draw is scale^2 L L'.
        z = p.rng.standard_normal((1, d))
        one = kernels.sample_gaussian(p.theta, p.inverse, who[:1], scale, z)
        np.testing.assert_allclose(one[0], p.theta[i] + shifts.T @ z[0], rtol=1e-9, atol=1e-11)
        nought = kernels.sample_gaussian(p.theta, p.inverse, who[:1], scale, np.zeros((1, d)))
        assert np.array_equal(nought[0], p.theta[i])
    p.inverse[1, -1, -1] = -1.0
    with pytest.raises(ValueError, match="agent 1"):
        kernels.sample_gaussian(p.theta, p.inverse, np.array([0, 1]), scale, np.zeros((2, d)))


def test_indices_and_shapes_are_checked_before_anything_changes() -> None:
    p = Population(0, 3, 4, seen=2)
    before = p.copy()
    lanes, y, width = p.lanes(2, 5), np.ones(2), np.ones(2)
    fine, picks = np.array([0, 1]), np.array([0, 4])
    for who in (np.array([0, 3]), np.array([0, -1])):
        with pytest.raises(IndexError):
            kernels.pick_optimistic(p.inverse, p.theta, width, who, lanes)
        with pytest.raises(IndexError):
            kernels.observe(*p.arrays(), who, lanes, picks, y)
        with pytest.raises(IndexError):
            kernels.rank_one(p.inverse, p.theta, p.logdet, who, np.ones((2, 4)), y)
        with pytest.raises(IndexError):
            kernels.accumulate(p.gram, p.moment, p.count, who, np.ones((2, 4)), y)
    for bad in (np.array([0, 5]), np.array([0, -1])):
        with pytest.raises(IndexError):
            kernels.observe(*p.arrays(), fine, lanes, bad, y)
    with pytest.raises(ValueError):
        kernels.observe(*p.arrays(), fine, lanes, picks, np.ones(3))
    with pytest.raises(ValueError):
        kernels.pick_optimistic(p.inverse, p.theta, width, fine, np.ones((2, 5, 5)))
    with pytest.raises(ValueError):
        kernels.pick_greedy(p.theta, lanes)
    for now, then in zip(p.arrays(), before.arrays(), strict=True):
        assert np.array_equal(now, then)


def test_nobody_awake() -> None:
    p = Population(0, 3, 4)
    who, lanes = np.empty(0, np.int64), np.empty((0, 4, 5))
    picks = kernels.pick_optimistic(p.inverse, p.theta, np.empty(0), who, lanes)
    assert picks.shape == (0,)
    assert kernels.observe(*p.arrays(), who, lanes, picks, np.empty(0)).shape == (0,)


SECOND_PROCESS = """
import numpy as np
from fedbandits.linalg import kernels
rng = np.random.default_rng(5)
n, d, arms = 3, 7, 9
inverse, theta = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
rest = np.zeros(n), np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
who = np.arange(n)
for _ in range(4):
    lanes = rng.standard_normal((n, d, arms))
    picks = kernels.pick_optimistic(inverse, theta, np.ones(n), who, lanes)
    kernels.observe(inverse, theta, *rest, who, lanes, picks, rng.standard_normal(n))
hits = sum(kernels.pick_optimistic.stats.cache_hits.values())
hits += sum(kernels.observe.stats.cache_hits.values())
print(hits, inverse.tobytes().hex(), theta.tobytes().hex())
"""


@pytest.mark.slow
def test_a_second_process_loads_the_compiled_code(tmp_path: Path) -> None:
    source = str(Path(next(iter(fedbandits.__path__))).parent)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SECOND_PROCESS],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs[0][0] == "0"
    assert outputs[1][0] == "2"
    assert outputs[0][1:] == outputs[1][1:]
