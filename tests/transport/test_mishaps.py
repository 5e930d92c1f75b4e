"""Mishaps: hashed draws against an independent hash, and the laws they are said to follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandits.graphs.network import Faults
from fedbandits.transport.mishaps import (
    BYZANTINE,
    DELAY,
    LOSS,
    byzantine,
    delayed,
    lost,
    mishaps_of,
    tails_of,
    uniform,
    uniforms,
)

WORD = 2**64
OCCASIONS = np.stack(np.meshgrid(np.arange(20), np.arange(20), np.arange(10), np.arange(10)), -1).reshape(-1, 4)


def mishaps(seed=0, **faults):
    return mishaps_of(Faults(**faults), np.random.SeedSequence(seed))


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
    key = mishaps(seed).keys[LOSS]
    drawn = uniform(key, tuple(numbers))
    assert drawn == reference(key, numbers)
    assert drawn == uniforms(key, np.array([numbers]))[0]
    assert 0 < drawn < 1


def test_draws_are_uniform_and_differ_in_every_word_and_key():
    keys = mishaps().keys
    drawn = uniforms(keys[LOSS], OCCASIONS)
    assert stats.kstest(drawn, "uniform").pvalue > 0.01
    assert len(np.unique(drawn)) == len(drawn)
    for other in (uniforms(keys[DELAY], OCCASIONS), uniforms(mishaps(1).keys[LOSS], OCCASIONS)):
        assert abs(stats.pearsonr(drawn, other).statistic) < 4 / np.sqrt(len(drawn))
    table = drawn.reshape(20, 20, 10, 10)
    for axis in range(4):
        neighbours = (
            table.take(np.arange(1, table.shape[axis]), axis),
            table.take(np.arange(table.shape[axis] - 1), axis),
        )
        correlation = stats.pearsonr(*(part.ravel() for part in neighbours)).statistic
        assert abs(correlation) < 4 / np.sqrt(len(drawn))


def test_kinds_of_messages_meet_failures_of_their_own_but_byzantine_agents_stay_so():
    seed, faults = np.random.SeedSequence(3, spawn_key=(1,)), Faults(loss=0.5)
    alone, first, second, third = (mishaps_of(faults, seed, *order) for order in ((), (0,), (1,), (2,)))
    np.testing.assert_array_equal(alone.keys, first.keys)
    assert first.keys[BYZANTINE] == second.keys[BYZANTINE] == third.keys[BYZANTINE]
    keys = np.concatenate([one.keys[:BYZANTINE] for one in (first, second, third)])
    assert len(np.unique(keys)) == len(keys)
    drawn = [uniforms(one.keys[LOSS], OCCASIONS) for one in (first, second)]
    assert abs(stats.pearsonr(*drawn).statistic) < 4 / np.sqrt(len(OCCASIONS))


def test_there_and_back_are_two_transmissions():
    key = mishaps().keys[LOSS]
    assert uniform(key, (3, 5, 0, 1)) != uniform(key, (3, 5, 1, 0))


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.7])
def test_losses_have_their_chance(loss):
    one = mishaps(loss=loss)
    rate = np.mean([lost(one, *occasion) for occasion in OCCASIONS[::4].tolist()])
    assert abs(rate - loss) <= 4 * np.sqrt(loss * (1 - loss) / len(OCCASIONS[::4]))


@pytest.mark.parametrize(("mean", "longest"), [(0.5, 1), (1.5, 2), (3.0, 40), (10.0, 50)])
def test_delays_are_geometric_cut_off_and_have_the_mean(mean, longest):
    tails = tails_of(mean, longest)
    assert tails.sum() == pytest.approx(mean)  # the mean is the sum of the tails
    np.testing.assert_allclose(tails[1:] / tails[:-1], tails[0])
    one = mishaps(delay=mean, delay_max=longest)
    drawn = np.array([delayed(one, *occasion) for occasion in OCCASIONS[::2].tolist()])
    chance = np.append(1, tails) - np.append(tails, 0)
    seen = np.bincount(drawn, minlength=longest + 1)
    assert len(seen) == longest + 1
    assert stats.chisquare(seen, chance / chance.sum() * len(drawn)).pvalue > 0.001
    assert drawn.mean() == pytest.approx(mean, abs=4 * drawn.std() / np.sqrt(len(drawn)))


def test_the_longest_mean_delays_everything_alike():
    one = mishaps(delay=3.0, delay_max=3)
    assert {delayed(one, *occasion) for occasion in OCCASIONS[:100].tolist()} == {3}


def test_without_delay_nothing_waits():
    assert len(tails_of(0.0, 7)) == 0
    assert delayed(mishaps(delay_max=7), 0, 0, 0, 1) == 0


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 1))
def test_byzantine_agents_are_no_more_than_their_share_and_nested(n, one, other):
    low, high = (byzantine(mishaps(), share, n) for share in sorted((one, other)))
    assert high.sum() <= max(one, other) * n + 1e-6 < high.sum() + 1 + 1e-6
    assert (high | ~low).all()


def test_a_share_that_is_whole_stays_whole():
    assert byzantine(mishaps(), 0.29, 100).sum() == 29
    assert not (byzantine(mishaps(), 0.5, 100) == byzantine(mishaps(1), 0.5, 100)).all()
