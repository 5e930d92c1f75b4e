"""Random streams: the right generator, one stream per identity, good numbers; what is common and what is secret."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Secret, Streams, seeds_of

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


# --- what a federation has in common

FEDERATION = np.random.SeedSequence(11)


def common(*occasion, seed=FEDERATION, **streams):
    holder = Streams(np.random.SeedSequence(streams.pop("own", 0)), common=seed, **({"n": 1} | streams))
    return holder.common(*occasion).random(4).tolist()


def test_common_draws_are_the_same_for_everybody():
    """Agents alone and together, the server, whatever their own streams are and however far those have come."""
    expected = common("features", 3)
    assert common("features", 3, n=50) == expected
    assert common("features", 3, identities=np.array([17])) == expected
    assert common("features", 3, own=99) == expected
    holder = Streams(np.random.SeedSequence(1), 2, common=FEDERATION)
    holder.uniform(np.arange(2), 7)
    holder.common("something else").random(5)
    words = holder.words.copy()
    for _ in range(2):
        assert holder.common("features", 3).random(4).tolist() == expected
    np.testing.assert_array_equal(holder.words, words)


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(-3, 3)), min_size=2, max_size=6, unique=True))
def test_common_draws_differ_by_occasion_and_by_seed(occasions):
    drawn = [common(*occasion) for occasion in occasions]
    drawn += [common(*occasion, seed=np.random.SeedSequence(12)) for occasion in occasions]
    assert len({tuple(numbers) for numbers in drawn}) == len(drawn)


def test_occasions_are_told_apart_by_their_parts():
    asked = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", 11), ("a", 1, 1), ("a1",)]
    assert len({tuple(common(*occasion)) for occasion in asked}) == len(asked)


def test_known_common_draws_never_change():
    """Agents of several versions may be in one federation."""
    assert common("features", 3)[:2] == COMMON


COMMON = [0.9727850922869477, 0.6824174530836371]


def test_common_draws_are_independent_of_own_ones():
    """Without a seed of the federation's own, they come from the same seed by another way."""
    holder = Streams(np.random.SeedSequence(5), 1)
    assert holder.common("x").random() != holder.uniform(np.arange(1))[0]
    many = np.array([holder.common("step", step).random() for step in range(2000)])
    assert stats.kstest(many, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 4 / np.sqrt(2000)


def test_streams_for_another_purpose_move_nothing_here():
    here, there = (Streams(np.random.SeedSequence(5), identities=np.array([4, 7]), common=FEDERATION) for _ in range(2))
    apart, other = here.apart("stage", 0), here.apart("stage", 1)
    who = np.arange(2)
    drawn = [streams.uniform(who, 3).tolist() for streams in (apart, other, here.apart("stage", 0))]
    assert drawn[0] == drawn[2] != drawn[1]
    np.testing.assert_array_equal(here.uniform(who, 3), there.uniform(who, 3))
    assert apart.common("x").random() == here.common("x").random()
    np.testing.assert_array_equal(apart.identities, here.identities)
    alone = Streams(np.random.SeedSequence(5), identities=np.array([7])).apart("stage", 0)
    assert alone.uniform(np.arange(1), 3).tolist() == drawn[0][1:]


# --- what nobody else may know


@pytest.mark.parametrize("draw", ["uniform", "normal"])
@pytest.mark.parametrize("size", [None, 3])
def test_the_secret_of_a_simulation_is_the_next_of_ones_own_draws(draw, size):
    """So that runs can be repeated, and are what they were before there was a secret."""
    one, two = (Streams(np.random.SeedSequence(8), 4) for _ in range(2))
    for who in (np.arange(4), np.array([2]), np.array([3, 0])):
        np.testing.assert_array_equal(getattr(one.secret, draw)(who, size), getattr(two, draw)(who, size))
        np.testing.assert_array_equal(one.uniform(who), two.secret.uniform(who))
    np.testing.assert_array_equal(one.words, two.words)


def test_the_secret_of_a_simulation_keeps_nothing():
    assert list(Streams(np.random.SeedSequence(8), 4).state()) == ["words"]


class Counting(Secret):
    """A secret of its own, which is saved."""

    keeps: ClassVar[tuple[str, ...]] = ("count",)

    def __init__(self, n):
        self.count = np.zeros((n, 1))

    def uniform(self, who, size=None):
        self.count[who] += 1
        return np.broadcast_to(self.count[who] / 100, (len(who), size or 1))[:, 0 if size is None else slice(None)]


def test_a_secret_of_ones_own_takes_its_place_and_is_saved_with_the_streams():
    streams = Streams(np.random.SeedSequence(8), 2, secret=Counting(2))
    before = streams.words.copy()
    assert streams.secret.uniform(np.array([1])).tolist() == [0.01]
    np.testing.assert_allclose(streams.secret.normal(np.array([1, 0]), 2), stats.norm.ppf([[0.02] * 2, [0.01] * 2]))
    np.testing.assert_array_equal(streams.words, before)
    again = Streams(np.random.SeedSequence(9), 2, secret=Counting(2))
    again.load(streams.state())
    assert again.secret.count.ravel().tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(again.words, streams.words)
    assert streams.share(1)["secret.count"].tolist() == [[2.0]]


# --- what a number stands for


@pytest.mark.parametrize("seed", [0, 1, 2024])
def test_a_seed_means_what_it_meant(seed):
    """The first four as they were when there were no others; none twice."""
    seeds = seeds_of(seed)
    assert seeds._fields == ("world", "agents", "graph", "mishaps", "server", "common")
    states = [tuple(part.generate_state(4).tolist()) for part in seeds]
    former = [tuple(part.generate_state(4).tolist()) for part in np.random.SeedSequence(seed).spawn(4)]
    assert states[:4] == former
    assert len(set(states)) == len(states)
    assert [tuple(part.generate_state(4).tolist()) for part in seeds_of(seed)] == states


class Drawing(Server):
    """Notes what it may draw."""

    def __init__(self, rng):
        self.own, self.shared = rng.uniform(np.arange(1), 3), rng.common("theta").random(3)

    def converse(self, callers):
        yield from ()


class Noting(Population):
    def __init__(self, n, rng):
        super().__init__(n)
        self.own, self.shared = rng.uniform(np.arange(n), 3), rng.common("theta").random(3)

    def choose(self, who, arms):
        return np.zeros(len(who), dtype=np.int64)

    def learn(self, who, arms, picks, rewards):
        pass


@parameters
class Noted:
    about: ClassVar[About] = About("noted", "own", "star", "never", (), "none", "none")

    def agents(self, problem, n, rng):
        return Noting(n, rng)

    def server(self, problem, n, rng):
        return Drawing(rng)


def test_agents_and_server_of_a_simulation_draw_their_own_and_the_same():
    runs = [fb.Simulation(Noted(), fb.environments.Linear(clients=3, dim=2, arms=2), 2, seed) for seed in (4, 4, 5)]
    for run in runs:
        np.testing.assert_array_equal(run.agents.shared, run.server.shared)
        assert not np.isin(run.server.own, run.agents.own).any()
    one, same, other = runs
    np.testing.assert_array_equal(one.server.own, same.server.own)
    assert (one.server.own != other.server.own).all()
    assert (one.server.shared != other.server.shared).all()
