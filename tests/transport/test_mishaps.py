"""Fate: hashed draws against an independent hash, and the laws they are said to follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandits.graphs.network import Faults
from fedbandits.transport.mishaps import DELAY, LOSS, byzantine, delayed, fate_of, lost, tails_of, uniform, uniforms

WORD = 2**64
OCCASIONS = np.stack(np.meshgrid(np.arange(20), np.arange(20), np.arange(10), np.arange(10)), -1).reshape(-1, 4)


def fate(seed=0, **faults):
    return fate_of(Faults(**faults), np.random.SeedSequence(seed))


def reference(key, numbers):
    """The chain of SplitMix64 steps, with Python's own integers."""
    word = int(key)
    for number in numbers:
        z = (word + number + 0x9E3779B97F4A7C15) % WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        word = z ^ (z >> 31)
    return (2 * (word >> 12) + 1) / 2**53


@given(st.integers(0, 10**6), st.lists(st.integers(0, 2**40), min_size=1, max_size=5))
def test_draws_are_those_of_the_hash(seed, numbers):
    key = fate(seed).keys[LOSS]
    drawn = uniform(key, tuple(numbers))
    assert drawn == reference(key, numbers)
    assert drawn == uniforms(key, np.array([numbers]))[0]
    assert 0 < drawn < 1


def test_draws_are_uniform_and_differ_in_every_word_and_key():
    keys = fate().keys
    drawn = uniforms(keys[LOSS], OCCASIONS)
    assert stats.kstest(drawn, "uniform").pvalue > 0.01
    assert len(np.unique(drawn)) == len(drawn)
    for other in (uniforms(keys[DELAY], OCCASIONS), uniforms(fate(1).keys[LOSS], OCCASIONS)):
        assert abs(stats.pearsonr(drawn, other).statistic) < 4 / np.sqrt(len(drawn))
    table = drawn.reshape(20, 20, 10, 10)
    for axis in range(4):
        neighbours = (
            table.take(np.arange(1, table.shape[axis]), axis),
            table.take(np.arange(table.shape[axis] - 1), axis),
        )
        correlation = stats.pearsonr(*(part.ravel() for part in neighbours)).statistic
        assert abs(correlation) < 4 / np.sqrt(len(drawn))


def test_there_and_back_are_two_transmissions():
    key = fate().keys[LOSS]
    assert uniform(key, (3, 5, 0, 1)) != uniform(key, (3, 5, 1, 0))


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.7])
def test_losses_have_their_chance(loss):
    one = fate(loss=loss)
    rate = np.mean([lost(one, *occasion) for occasion in OCCASIONS[::4].tolist()])
    assert abs(rate - loss) <= 4 * np.sqrt(loss * (1 - loss) / len(OCCASIONS[::4]))


@pytest.mark.parametrize(("mean", "longest"), [(0.5, 1), (1.5, 2), (3.0, 40), (10.0, 50)])
def test_delays_are_geometric_cut_off_and_have_the_mean(mean, longest):
    tails = tails_of(mean, longest)
    assert tails.sum() == pytest.approx(mean)  # the mean is the sum of the tails
    np.testing.assert_allclose(tails[1:] / tails[:-1], tails[0])
    one = fate(delay=mean, delay_max=longest)
    drawn = np.array([delayed(one, *occasion) for occasion in OCCASIONS[::2].tolist()])
    chance = np.append(1, tails) - np.append(tails, 0)
    seen = np.bincount(drawn, minlength=longest + 1)
    assert len(seen) == longest + 1
    assert stats.chisquare(seen, chance / chance.sum() * len(drawn)).pvalue > 0.001
    assert drawn.mean() == pytest.approx(mean, abs=4 * drawn.std() / np.sqrt(len(drawn)))


def test_the_longest_mean_delays_everything_alike():
    one = fate(delay=3.0, delay_max=3)
    assert {delayed(one, *occasion) for occasion in OCCASIONS[:100].tolist()} == {3}


def test_without_delay_nothing_waits():
    assert len(tails_of(0.0, 7)) == 0
    assert delayed(fate(delay_max=7), 0, 0, 0, 1) == 0


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 1))
def test_byzantine_agents_are_no_more_than_their_share_and_nested(n, one, other):
    low, high = (byzantine(fate(), share, n) for share in sorted((one, other)))
    assert high.sum() <= max(one, other) * n + 1e-6 < high.sum() + 1 + 1e-6
    assert (high | ~low).all()


def test_a_share_that_is_whole_stays_whole():
    assert byzantine(fate(), 0.29, 100).sum() == 29
    assert not (byzantine(fate(), 0.5, 100) == byzantine(fate(1), 0.5, 100)).all()
