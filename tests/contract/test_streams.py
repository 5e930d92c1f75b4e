"""Random streams: the right generator, one stream per identity, good numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandits.contract.streams import Streams

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def split_mix(seed):
    """SplitMix64's output for a state that is about to be advanced by the golden ratio."""
    z = (seed + GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def rotate(word, by):
    return ((word << by) | (word >> (64 - by))) & MASK


class Xoshiro256PlusPlus:
    """Blackman & Vigna's generator in exact integers."""

    def __init__(self, words):
        self.s = list(words)

    def next(self):
        s = self.s
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        shifted = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotate(s[3], 45)
        return result

    def uniform(self):
        return ((self.next() >> 12) + 0.5) * 2.0**-52


def expected_words(seed, identity):
    key = [int(word) for word in np.random.SeedSequence(seed).generate_state(2, np.uint64)]
    mixed = split_mix((identity + key[0]) & MASK) ^ key[1]
    return [split_mix((mixed + step * GOLDEN) & MASK) for step in range(1, 5)]


def test_the_python_generators_are_the_published_ones():
    """First outputs of the authors' code: SplitMix64 from 0, xoshiro256++ from the state 1, 2, 3, 4."""
    assert split_mix(0) == 0xE220A8397B1DCDAF
    assert split_mix(GOLDEN) == 0x6E789E6AA1B965F4
    published = Xoshiro256PlusPlus([1, 2, 3, 4])
    assert [published.next() for _ in range(3)] == [41943041, 58720359, 3588806011781223]


@given(st.integers(0, 2**40), st.integers(0, 2**31), st.integers(1, 20))
def test_draws_equal_the_python_generator(seed, identity, draws):
    streams = Streams(np.random.SeedSequence(seed), identities=np.array([identity]))
    words = expected_words(seed, identity)
    assert [int(word) for word in streams.words[0]] == words
    reference = Xoshiro256PlusPlus(words)
    drawn = streams.uniform(np.array([0]), draws)[0]
    assert drawn.tolist() == [reference.uniform() for _ in range(draws)]
    assert [int(word) for word in streams.words[0]] == reference.s


def test_known_draws_never_change():
    """What a seed means is part of the interface: results are compared across versions."""
    drawn = Streams(np.random.SeedSequence(2024), 2).uniform(np.arange(2), 2)
    reference = [Xoshiro256PlusPlus(expected_words(2024, i)) for i in range(2)]
    assert drawn.tolist() == [[one.uniform() for _ in range(2)] for one in reference]
    assert drawn.tolist() == KNOWN


KNOWN = [[0.3130289873830788, 0.8947575948601431], [0.399299777119546, 0.3161445282327172]]


@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.integers(1, 4))
def test_an_agent_draws_the_same_wherever_it_lives(who, size):
    """In the whole population, in a part of it in another order, or alone."""
    seed = np.random.SeedSequence(3)
    everybody = Streams(seed, 10).uniform(np.arange(10), size)
    part = Streams(seed, identities=np.array(who)).uniform(np.arange(len(who)), size)
    np.testing.assert_array_equal(part, everybody[who])
    some = Streams(seed, 10).uniform(np.array(who), size)
    np.testing.assert_array_equal(some, everybody[who])


def test_who_is_asleep_does_not_draw():
    streams = Streams(np.random.SeedSequence(0), 3)
    before = streams.words.copy()
    streams.uniform(np.array([1]), 5)
    np.testing.assert_array_equal(streams.words[[0, 2]], before[[0, 2]])
    assert (streams.words[1] != before[1]).any()


def test_one_draw_after_the_other_is_the_same_as_all_at_once():
    one, many = (Streams(np.random.SeedSequence(9), 2) for _ in range(2))
    who = np.arange(2)
    stepwise = np.stack([one.uniform(who) for _ in range(6)], axis=1)
    np.testing.assert_array_equal(stepwise, many.uniform(who, 6))


def test_draws_are_uniform_and_normal():
    streams = Streams(np.random.SeedSequence(5), 4)
    uniforms = streams.uniform(np.arange(4), 20_000)
    assert ((uniforms > 0) & (uniforms < 1)).all()
    normals = streams.normal(np.arange(4), 20_000)
    for i in range(4):
        assert stats.kstest(uniforms[i], "uniform").pvalue > 1e-3
        assert stats.kstest(normals[i], "norm").pvalue > 1e-3


def test_streams_of_neighbours_are_independent():
    """Across 20 000 consecutive identities the first draws are uniform, and neighbours are uncorrelated, as are
    successive draws of one agent and the same draws under neighbouring seeds.
    """
    n = 20_000
    first, second = Streams(np.random.SeedSequence(6), n).uniform(np.arange(n), 2).T
    other = Streams(np.random.SeedSequence(7), n).uniform(np.arange(n))
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    for left, right in ((first[:-1], first[1:]), (first, second), (first, other)):
        assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(n)
        cells = np.histogram2d(left, right, bins=8)[0]
        assert stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_streams_can_be_saved():
    streams = Streams(np.random.SeedSequence(1), 3)
    streams.uniform(np.arange(3), 4)
    saved = streams.state()
    following = streams.uniform(np.arange(3), 4)
    other = Streams(np.random.SeedSequence(2), 3)
    other.load(saved)
    np.testing.assert_array_equal(other.uniform(np.arange(3), 4), following)


def test_no_agents_no_streams():
    with pytest.raises(ValueError, match="n >= 1"):
        Streams(np.random.SeedSequence(0))
    with pytest.raises(ValueError, match="identities"):
        Streams(np.random.SeedSequence(0), identities=np.array([], dtype=np.int64))
