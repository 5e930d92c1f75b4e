"""Learned bounds: nobody's observation is more than noise is made for, and noise keeps its law in every frame."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.models import frames as subject
from fedbandits.models.frames import Frames

LONGEST, LARGEST, DIM = 1.5, 2.0, 4
PROBLEM = Problem(agents=30, dim=DIM, arms=5, horizon=100).knowing(
    Norms(1.0, LONGEST), Range(-LARGEST, LARGEST), Noise(0.5)
)


def data(rng, size, centre=0.9, beside=0.2):
    """Arms about a point, and rewards that are linear in them."""
    theta = np.array([0.8, 0.3, 0.0, -0.2])
    x = centre * np.eye(DIM)[0] + beside * rng.standard_normal((size, DIM))
    return x, x @ theta + 0.3 * rng.standard_normal(size), theta


def learned(rng, n=2, deviation=3.0, size=3000):
    """Frames of n agents who have been told noisy sums of `size` observations, and closed one block."""
    found = Frames(PROBLEM, n, DIM, PROBLEM.agents, deviation)
    x, y, _ = data(rng, size)
    noise = deviation * np.sqrt(PROBLEM.agents) * LONGEST * rng.standard_normal((n, DIM, DIM + 1))
    gram = x.T @ x + (noise[:, :, :-1] + np.swapaxes(noise[:, :, :-1], 1, 2)) * LONGEST / np.sqrt(2)
    moment = x.T @ y + noise[:, :, -1] * LARGEST
    turns = np.full(n, size / PROBLEM.agents)
    found.read(np.arange(n), gram, moment, turns, np.ones(n, dtype=bool))
    return found


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0.01, 1e6))
def test_one_observation_is_never_more_than_noise_is_made_for(seed, size):
    """In the coordinates in which noise is drawn: ||x x^T||_F <= 1 and ||y x|| <= 1, in units of the bounds."""
    rng = np.random.default_rng(seed)
    found, who = learned(rng), np.arange(2)
    chosen, rewards = size * rng.standard_normal((2, DIM)), size * rng.standard_normal(2)
    x, y = found.cut(who, chosen, rewards)
    seen = np.einsum("wij,wj->wi", found.metric, x)
    left = y - np.einsum("wi,wi->w", found.reference, x)
    assert (np.linalg.norm(seen, axis=1) <= found.radius * (1 + 1e-9)).all()
    assert (np.abs(left) <= found.residual * (1 + 1e-9) + 1e-9 * np.abs(y)).all()
    assert (found.radius <= LONGEST).all()
    assert (found.residual <= LARGEST).all()


def test_an_observation_that_is_shortened_says_the_same():
    found, theta = learned(np.random.default_rng(0)), np.array([0.5, -0.1, 0.2, 0.3])
    found.reference[:] = theta
    chosen = np.array([[3.0, 1.0, -2.0, 0.5], [0.3, 0.0, 0.1, 0.0]])
    x, y = found.cut(np.arange(2), chosen, chosen @ theta)
    np.testing.assert_allclose(y, x @ theta, rtol=1e-12)
    assert np.linalg.norm(x[0]) < np.linalg.norm(chosen[0])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_in_its_frame_noise_is_what_was_drawn(seed):
    """Undoing what is done to plain sums gives back the noise of declared bounds, in units of the frame's own."""
    rng = np.random.default_rng(seed)
    found, who = learned(rng), np.arange(2)
    square = rng.standard_normal((2, DIM, DIM))
    matrix, vector = square + np.swapaxes(square, 1, 2), rng.standard_normal((2, DIM))
    gram, moment = found.shaped(who, matrix, vector)
    in_frame = found.metric @ gram @ found.metric / (found.radius**2)[:, None, None] * LONGEST**2
    left = np.einsum("wij,wj->wi", found.metric, moment - np.einsum("wij,wj->wi", gram, found.reference))
    np.testing.assert_allclose(in_frame, matrix, rtol=1e-8, atol=1e-8)
    left *= (LONGEST * LARGEST / (found.radius * found.residual))[:, None]
    np.testing.assert_allclose(left, vector, rtol=1e-8, atol=1e-8)


def test_declared_bounds_hold_until_something_is_told():
    found, who = Frames(PROBLEM, 3, DIM, 30, 3.0), np.arange(3)
    rng = np.random.default_rng(0)
    matrix, vector = np.tile(np.eye(DIM), (3, 1, 1)), rng.standard_normal((3, DIM))
    gram, moment = found.shaped(who, matrix, vector)
    np.testing.assert_array_equal(gram, matrix)
    np.testing.assert_array_equal(moment, vector)
    x, y = found.cut(who, 0.5 * matrix[:, 0], np.array([-2.0, 0.1, 2.0]))
    np.testing.assert_array_equal(x, 0.5 * matrix[:, 0])
    np.testing.assert_array_equal(y, [-2.0, 0.1, 2.0])


def test_noise_shrinks_to_what_data_are():
    """Arms of length 0.9 about one point, 0.2 to every side: the others' declared length is 1.5."""
    found = learned(np.random.default_rng(1), deviation=0.5, size=20_000)
    assert (found.radius < 0.6).all()
    assert (found.residual < 0.8).all()  # 1.3 deviations of rewards, against 2
    directions = np.abs(np.linalg.eigh(found.metric)[1][:, 0, 0])
    assert (directions > 0.95).all()  # it is the mean's direction that is made short


def test_what_is_read_is_the_formula():
    """A second block of one agent, by inverses of what stands in the module's first lines."""
    rng = np.random.default_rng(3)
    found = learned(rng, n=1)
    before, V0, m0 = {name: np.array(getattr(found, name)[0]) for name in found.keeps}, found.gram[0], found.moment[0]
    x, y, _ = data(rng, 2400)
    block, vector = x.T @ x + 5 * np.diag(rng.standard_normal(DIM)), x.T @ y + 9 * rng.standard_normal(DIM)
    V0, m0 = V0.copy(), m0.copy()
    told = before["closed_gram"] + block, before["closed_moment"] + vector
    gram, moment = found.read(np.arange(1), told[0][None], told[1][None], np.array([80.0]), np.array([False]))
    A1, r, rho, reference = np.linalg.inv(before["metric"]), *(before[k] for k in ("radius", "residual", "reference"))
    s = 3.0 * np.sqrt(30)
    weight = (2400 / (s * r**2)) ** 2
    mean = (before["mean"] + weight * block / 2400) / (before["precision"] + weight)
    values, vectors = found._second_moments(mean[None], (before["precision"] + weight)[None])
    V = 2400 * (vectors[0] * values[0]) @ vectors[0].T
    doubt = 0.25 * np.linalg.inv(V0 + 0.25 * DIM * np.eye(DIM))  # S = 1
    D = A1 @ doubt @ A1
    e = (s * r * rho) ** 2 * np.eye(DIM) + (s * r**2) ** 2 * (np.trace(D) * np.eye(DIM) + D)
    Q = A1 @ e @ A1 / 0.25
    half = V @ np.linalg.inv(V + Q)
    np.testing.assert_allclose(gram[0], V0 + half @ V, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(moment[0], m0 + half @ (vector - block @ reference + V @ reference), rtol=1e-7)
    assert np.linalg.eigvalsh(gram[0])[0] > 0
    np.testing.assert_array_equal(found.reference[0], reference)  # no frame changes while a block is open


def test_without_noise_sums_are_read_as_they_are():
    rng = np.random.default_rng(5)
    found = Frames(PROBLEM, 1, DIM, 30, 1e-6)
    x, y, theta = data(rng, 3000)
    gram, moment = found.read(np.arange(1), (x.T @ x)[None], (x.T @ y)[None], np.array([100.0]), np.array([True]))
    np.testing.assert_allclose(gram[0], x.T @ x, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(np.linalg.solve(gram[0], moment[0]), np.linalg.solve(x.T @ x, x.T @ y), atol=1e-4)
    assert np.linalg.norm(found.reference[0] - theta) < 0.1


def test_the_error_has_the_covariance_that_is_said():
    """e = A^-1 z - N (theta* - theta_0), over many draws, against what `_worth` discounts by."""
    rng = np.random.default_rng(6)
    found, runs, delta = learned(rng, n=1), 40_000, np.array([0.1, -0.2, 0.05, 0.1])
    square = rng.standard_normal((runs, DIM, DIM)) * LONGEST**2
    matrix = (square + np.swapaxes(square, 1, 2)) / np.sqrt(2)
    who = np.zeros(runs, dtype=np.int64)
    gram, moment = found.shaped(who, matrix, LONGEST * LARGEST * rng.standard_normal((runs, DIM)))
    error = moment - gram @ (found.reference[0] + delta)
    undone, r, rho = found.undone[0], found.radius[0], found.residual[0]
    seen = undone @ delta
    inside = (r * rho) ** 2 * np.eye(DIM) + r**4 * (seen @ seen * np.eye(DIM) + np.outer(seen, seen))
    said = undone @ inside @ undone
    scale = np.sqrt(np.diag(said))
    np.testing.assert_allclose(
        error.T @ error / runs / np.outer(scale, scale), said / np.outer(scale, scale), atol=0.03
    )


class TestSecondMoments:
    def noisy(self, rng, true, deviation, runs):
        square = deviation * rng.standard_normal((runs, DIM, DIM))
        return true + (square + np.swapaxes(square, 1, 2)) / np.sqrt(2)

    def test_noise_alone_has_no_direction(self):
        found = Frames(PROBLEM, 1, DIM, 30, 1.0)
        mean = self.noisy(np.random.default_rng(0), 0.5 * np.eye(DIM), 0.02, 300)
        values, _ = found._second_moments(mean, np.full(300, 0.02**-2))
        raw = np.linalg.eigvalsh(mean)
        assert values.std(axis=1).mean() < 0.6 * raw.std(axis=1).mean()

    @pytest.mark.parametrize("deviation", [0.02, 0.1])
    def test_one_that_sticks_out_is_what_it_is(self, deviation):
        found, true = Frames(PROBLEM, 1, DIM, 30, 1.0), np.diag([0.1, 0.1, 0.1, 0.9])
        mean = self.noisy(np.random.default_rng(1), true, deviation, 3000)
        values, _ = found._second_moments(mean, np.full(3000, deviation**-2))
        raw = np.linalg.eigvalsh(mean)[:, -1].mean()
        assert abs(values[:, -1].mean() - 0.9) < min(0.02, abs(raw - 0.9) + 0.005)

    def test_hardly_anything_is_known(self):
        """Whatever comes out, directions have something: a frame without a width would cut everything away."""
        found = Frames(PROBLEM, 1, DIM, 30, 1.0)
        mean = self.noisy(np.random.default_rng(2), np.zeros((DIM, DIM)), 5.0, 500)
        values, _ = found._second_moments(mean, np.full(500, 1 / 25.0))
        assert (values > subject.LEAST * np.sqrt(2 * DIM) * 5.0 / DIM * (1 - 1e-12)).all()


def test_an_agent_alone_reads_what_it_reads_among_others():
    rng = np.random.default_rng(8)
    grams = rng.standard_normal((3, DIM, DIM))
    grams = 100 * (grams + np.swapaxes(grams, 1, 2)) + 500 * np.eye(DIM)
    moments, turns = 100 * rng.standard_normal((3, DIM)), np.array([10.0, 20.0, 30.0])
    together = Frames(PROBLEM, 3, DIM, 30, 2.0)
    read = together.read(np.arange(3), grams, moments, turns, np.ones(3, dtype=bool))
    for agent in range(3):
        alone, row = Frames(PROBLEM, 1, DIM, 30, 2.0), slice(agent, agent + 1)
        one = alone.read(np.arange(1), grams[row], moments[row], turns[row], np.ones(1, dtype=bool))
        for mine, ours in zip(one, read, strict=True):
            np.testing.assert_array_equal(mine[0], ours[agent])
        for name in alone.keeps:
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[agent])
