"""The interval mechanism: what is released, when, with which noise, and from whose stream."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedbandits.contract.streams import Streams
from fedbandits.privacy import IntervalMeans, broadcast, regular

SEED = np.random.SeedSequence(3)


def mechanism(n, arms, schedule, identities=None):
    return IntervalMeans(n, arms, schedule, Streams(SEED, n, identities))


def feed(means, arms, rewards):
    """Observations (steps, n) of everybody, step by step; returns who released in each."""
    who = np.arange(len(means.counts))
    return np.array([means.observe(who, a, r) for a, r in zip(arms, rewards, strict=True)])


def test_by_hand():
    """Two arms, a release after every second pull; noise from the agent's own uniforms by inversion."""
    means = mechanism(1, 2, regular(0.5, 1.2, 10))
    u = Streams(SEED, 1).uniform(np.zeros(2, dtype=np.int64))
    noise = -np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5))
    due = feed(means, np.array([[0], [1], [0], [0], [0]]), np.array([[1.0], [0.25], [0.5], [0.0], [0.5]]))
    assert due[:, 0].tolist() == [False, False, True, False, True]
    np.testing.assert_allclose(means.means, [[2.0 / 4 + 4**-0.4 * noise[1], 0.0]])
    np.testing.assert_array_equal(means.counts, [[4, 1]])
    np.testing.assert_array_equal(means.counts_released, [[4, 0]])
    np.testing.assert_array_equal(means.releases, [[2, 0]])
    np.testing.assert_array_equal(means.most_releases(), [2])


def test_told_counts():
    means = mechanism(1, 2, regular(0.5, 1.1, 10))
    feed(means, np.array([[0], [0], [0], [1]]), np.zeros((4, 1)))
    everybody = np.arange(1)
    assert means.told(everybody, current=True)[1].tolist() == [[3, 0]]
    assert means.told(everybody, current=False)[1].tolist() == [[2, 0]]
    assert means.told(everybody, current=True)[0][0, 1] == 0


def test_releases_follow_the_schedule_and_stop_with_it():
    schedule = broadcast(0.1, 1.1, 40)
    means = mechanism(2, 1, schedule)
    due = feed(means, np.zeros((300, 2), dtype=np.int64), np.full((300, 2), 0.5))
    np.testing.assert_array_equal(np.flatnonzero(due[:, 0]) + 1, schedule.counts)
    np.testing.assert_array_equal(due[:, 0], due[:, 1])


def test_noise_is_drawn_once_for_each_release_and_by_nobody_else():
    rng = np.random.default_rng(0)
    n, steps = 5, 60
    means = mechanism(n, 3, regular(0.25, 1.1, steps))
    shown = []
    for _ in range(steps):
        who = np.flatnonzero(rng.random(n) < 0.7)
        before = means.means.copy()
        due = means.observe(who, rng.integers(3, size=len(who)), rng.random(len(who)))
        changed = (means.means != before).any(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(changed), who[due])
        shown.append(due.sum())
    fresh = Streams(SEED, n)
    for agent, made in enumerate(means.releases.sum(axis=1)):
        fresh.uniform(np.full(made, agent))
    np.testing.assert_array_equal(means.rng.words, fresh.words)
    assert sum(shown) == means.releases.sum() > 20


def test_the_noise_is_laplace_of_the_declared_scale():
    n, schedule = 20_000, broadcast(1.0, 1.3, 4)
    means = mechanism(n, 1, schedule)
    rewards = np.array([1.0, 0.0, 0.5, 0.25])
    centres = np.cumsum(rewards) / np.arange(1, 5)
    drawn = []
    for step in range(4):
        means.observe(np.arange(n), np.zeros(n, dtype=np.int64), np.full(n, rewards[step]))
        drawn.append((means.means[:, 0] - centres[step]) / (step + 1) ** (1.3 / 2 - 1))
    for noise in drawn:
        assert stats.kstest(noise, stats.laplace.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.03


def test_rewards_outside_the_unit_interval_count_as_its_ends():
    """Else one of them could move a mean by more than the noise is made for."""
    wild, tame = (mechanism(2, 1, regular(0.5, 1.1, 10)) for _ in range(2))
    arms = np.zeros((4, 2), dtype=np.int64)
    feed(wild, arms, np.array([[7.0, -3.0], [0.5, 0.5], [-1e9, 1e9], [1.0, 0.0]]))
    feed(tame, arms, np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(wild.means, tame.means)
    np.testing.assert_array_equal(wild.sums, tame.sums)


def test_an_agent_releases_the_same_alone():
    rng = np.random.default_rng(1)
    arms, rewards = rng.integers(3, size=(50, 6)), rng.random((50, 6))
    together = mechanism(6, 3, broadcast(0.3, 1.2, 50))
    feed(together, arms, rewards)
    for agent in range(6):
        alone = mechanism(1, 3, broadcast(0.3, 1.2, 50), np.array([agent]))
        feed(alone, arms[:, [agent]], rewards[:, [agent]])
        share = together.share(agent)
        for name, array in alone.share(0).items():
            np.testing.assert_array_equal(array, share[name])


def test_a_snapshot_goes_on_as_if_nothing_had_happened():
    rng = np.random.default_rng(2)
    arms, rewards = rng.integers(2, size=(40, 3)), rng.random((40, 3))
    one, other = (mechanism(3, 2, broadcast(0.4, 1.1, 40)) for _ in range(2))
    feed(one, arms[:15], rewards[:15])
    other.load(one.state())
    feed(one, arms[15:], rewards[15:])
    feed(other, arms[15:], rewards[15:])
    np.testing.assert_array_equal(one.means, other.means)


def test_events_are_the_releases_of_each_arm():
    means = mechanism(1, 2, regular(0.5, 1.1, 10))
    feed(means, np.array([[0], [0], [0], [0], [1]]), np.zeros((5, 1)))
    first, second = means.events(0)
    assert [part.noise_multiplier for part in first.events] == pytest.approx([2**0.55, 4**0.55])
    assert second.events == []


def test_a_schedule_that_became_denser_is_caught_up_with_and_costs_no_more():
    """State that was saved under a sparser schedule goes on under one with more releases for the same budget."""
    before, after = regular(0.1, 1.1, 60), regular(0.25, 1.1, 60)
    old = mechanism(1, 1, before)
    one = np.zeros(1, dtype=np.int64)
    for _ in range(30):
        old.observe(one, one, np.ones(1))
    new = mechanism(1, 1, after)
    new.load(old.state())
    made = [count for count in range(31, 61) if new.observe(one, one, np.ones(1)).all()]
    assert made[:4] == [31, 32, 33, 34]
    assert new.releases[0, 0] == len(after.counts)
    late = np.array([10, 20, 30, *made])
    assert (late >= after.counts).all(), "later than scheduled, hence with a smaller loss than is accounted for"
