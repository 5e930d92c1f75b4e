"""Prefix sums: factorisations of the matrix of ones, as good as they are said to be, and noise that telescopes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from fedbandits.privacy.prefix_sums import MOST_UPLOADS, NoiseSteps, PrefixSums, prefix_sums
from fedbandits.privacy.spectrum import depth

MECHANISMS = ["toeplitz", "tree", "fresh"]
UPLOADS = st.integers(1, 40)
MECHANISM = st.sampled_from(MECHANISMS)


@given(MECHANISM, UPLOADS)
def test_the_factors_multiply_to_prefix_sums(mechanism, uploads):
    sums = PrefixSums(mechanism, uploads)
    np.testing.assert_allclose(sums.noise @ sums.data, np.tri(uploads), atol=1e-12)
    assert (np.triu(sums.noise, 1) == 0).all()  # nothing is told of what is yet to come
    assert (np.triu(sums.data, 1) == 0).all()
    assert (sums.data >= 0).all()


@pytest.mark.parametrize("uploads", [1, 2, 7, 32])
def test_toeplitz_is_the_square_root(uploads):
    np.testing.assert_allclose(PrefixSums("toeplitz", uploads).noise, sqrtm(np.tri(uploads)).real, atol=1e-6)
    root = PrefixSums("toeplitz", uploads).noise
    np.testing.assert_allclose(root @ root, np.tri(uploads), atol=1e-12)


@given(MECHANISM, UPLOADS)
def test_sensitivities_and_variances_are_those_of_the_dense_matrices(mechanism, uploads):
    sums = PrefixSums(mechanism, uploads)
    for k in range(1, uploads + 1):
        shown = sums.data[:k]  # the first k releases show as many rows
        assert sums.sensitivities[k - 1] == pytest.approx(np.linalg.norm(shown, axis=0).max())
        assert sums.joint_sensitivities[k - 1] == pytest.approx(np.linalg.norm(shown @ np.ones(uploads)))
        assert sums.variances[k - 1] == pytest.approx((sums.noise[k - 1] ** 2).sum())
    assert sums.sensitivity == sums.sensitivities[-1]


@given(MECHANISM, st.integers(1, 12), st.integers(0, 2**16))
def test_nothing_moves_releases_by_more(mechanism, uploads, seed):
    """One observation anywhere, and one in every upload, of any direction in three dimensions."""
    rng, sums = np.random.default_rng(seed), PrefixSums(mechanism, uploads)
    moved = rng.standard_normal((uploads, 3))
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    single = [np.linalg.norm(np.outer(sums.data[:, j], moved[j])) for j in range(uploads)]
    assert max(single) <= sums.sensitivity * (1 + 1e-12)
    assert np.linalg.norm(sums.data @ moved) <= sums.joint_sensitivities[-1] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("uploads", "fresh", "tree", "toeplitz"),
    [(8, 4.5, 6.5, 2.5), (16, 8.5, 10.3, 3.2), (32, 16.5, 15.2, 4.0), (64, 32.5, 21.1, 5.0), (512, 256.5, 45.0, 8.3)],
)
def test_mean_variances_at_equal_budget(uploads, fresh, tree, toeplitz):
    """In units of one release: the figures of the design."""
    for mechanism, expected in {"fresh": fresh, "tree": tree, "toeplitz": toeplitz}.items():
        sums = PrefixSums(mechanism, uploads)
        assert sums.sensitivity**2 * sums.variances.mean() == pytest.approx(expected, abs=0.05)


class Streamed:
    """The binary tree as it is told level by level: each node has its sum and one noise, drawn when it is complete."""

    def __init__(self, levels: int) -> None:
        self.sums, self.noises = [0.0] * levels, [0.0] * levels
        self.made = 0

    def release(self, new: float, noise: float) -> float:
        self.made += 1
        low = (self.made & -self.made).bit_length() - 1
        self.sums[low] = new + sum(self.sums[:low])
        self.noises[low] = noise
        for level in range(low):
            self.sums[level] = self.noises[level] = 0.0
        held = [level for level in range(len(self.sums)) if self.made >> level & 1]
        return sum(self.sums[level] + self.noises[level] for level in held)


@given(st.integers(1, 40), st.integers(0, 2**16))
def test_the_tree_is_that_of_the_thesis(uploads, seed):
    rng, tree = np.random.default_rng(seed), Streamed(depth(40))
    new, z = rng.standard_normal((2, uploads))
    sums = PrefixSums("tree", uploads)
    told = [tree.release(*pair) for pair in zip(new, z, strict=True)]
    np.testing.assert_allclose(np.cumsum(new) + sums.noise @ z, told, atol=1e-12)
    terms = (sums.noise != 0).sum(axis=1)
    np.testing.assert_array_equal(terms, [k.bit_count() for k in range(1, uploads + 1)])
    assert terms.max() <= depth(uploads)
    assert (sums.data != 0).sum(axis=0).max() <= depth(uploads)


@given(MECHANISM, st.integers(1, 12), st.integers(0, 2**16))
def test_steps_add_up_to_the_noise_of_releases(mechanism, uploads, seed):
    rng, sums = np.random.default_rng(seed), PrefixSums(mechanism, uploads)
    z = rng.standard_normal((uploads, 3, 4))  # releases, agents, numbers
    steps = NoiseSteps(sums, 3, 4)
    said = np.stack([steps.step(np.arange(3), drawn) for drawn in z])
    np.testing.assert_allclose(np.cumsum(said, axis=0), np.einsum("kj,jnp->knp", sums.noise, z), atol=1e-12)
    with pytest.raises(ValueError, match="no more"):
        steps.step(np.array([1]), z[0, :1])


@given(MECHANISM, st.integers(1, 33), st.integers(0, 2**16))
def test_noise_is_forgotten_with_the_last_release_that_is_made_of_it(mechanism, uploads, seed):
    """What is kept after k releases is what the releases from the k+1st on are made of."""
    rng, sums = np.random.default_rng(seed), PrefixSums(mechanism, uploads)
    steps = NoiseSteps(sums, 1, 2)
    differences = np.diff(sums.noise, axis=0, prepend=0.0)
    for place in range(uploads):
        steps.step(np.array([0]), 1.0 + rng.random((1, 2)))
        kept = np.flatnonzero(steps.drawn[0].any(axis=-1))
        needed = np.flatnonzero((differences[place + 1 :] != 0.0).any(axis=0)[: place + 1])
        assert kept.tolist() == ([] if mechanism == "fresh" else needed.tolist())
    assert not steps.drawn.any(), "whoever finds the file later cannot take the noise off"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_steps_without_noise_are_zero(mechanism):
    steps = NoiseSteps(PrefixSums(mechanism, 9), 2, 3)
    for _ in range(9):
        np.testing.assert_array_equal(steps.step(np.arange(2), np.zeros((2, 3))), 0.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_agent_alone_has_the_same_bits_and_goes_on_from_a_snapshot(mechanism):
    z = np.random.default_rng(0).standard_normal((7, 5, 6))
    among, alone = NoiseSteps(PrefixSums(mechanism, 7), 5, 6), NoiseSteps(PrefixSums(mechanism, 7), 1, 6)
    for k, drawn in enumerate(z):
        if k == 3:
            kept, alone = alone.state(), NoiseSteps(PrefixSums(mechanism, 7), 1, 6)
            alone.load(kept)
        mine = among.step(np.array([4, 1, 3]), drawn[[4, 1, 3]])[2]
        np.testing.assert_array_equal(alone.step(np.array([0]), drawn[3:4])[0], mine)


def test_what_cannot_be_held_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        prefix_sums("tree", 0)
    with pytest.raises(ValueError, match="upload less often"):
        prefix_sums("toeplitz", MOST_UPLOADS + 1)
    assert prefix_sums("fresh", 10**6).sensitivity == 1.0
    assert prefix_sums("fresh", 10**6).variances[-1] == 10**6
