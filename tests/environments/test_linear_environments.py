"""The linear environments: what a seed fixes, what is shown, what is paid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.contract.facts import Noise, Norms, Shared
from fedbandits.environments import Linear, LinearShared
from fedbandits.environments import linear as module

SMALL = {"clients": 4, "dim": 4, "arms": 5}


def world(env, seed=0, horizon=100):
    return env.world(horizon, np.random.SeedSequence(seed))


VARIANTS = {
    "fresh": lambda **more: Linear(**SMALL, **more),
    "pool": lambda **more: Linear(**SMALL, pool=9, **more),
    "decaying": lambda **more: Linear(**SMALL, spread="decaying", **more),
    "shared": lambda **more: LinearShared(**SMALL, shared=2, **more),
    "shared-pool": lambda **more: LinearShared(**SMALL, shared=2, pool=9, **more),
    "stragglers": lambda **more: Linear(**SMALL, stragglers=0.5, presence=0.5, **more),
}
every_variant = pytest.mark.parametrize("make", VARIANTS.values(), ids=VARIANTS)


def means_of(instance, turn):
    """(w, K) mean rewards, from the parameters alone."""
    own = instance.theta if len(instance.theta) > 1 else np.repeat(instance.theta, 4, axis=0)
    return np.einsum("wkd,wd->wk", turn.arms, own[turn.who])


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@every_variant
def test_a_world_is_a_function_of_its_seed(make, schedule):
    env = make(schedule=schedule)
    one, two, other = world(env), world(env), world(env, seed=1)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (one.theta != other.theta).all()
    for step in range(20):
        first, second, third = one.turn(step), two.turn(step), other.turn(step)
        np.testing.assert_array_equal(first.who, second.who)
        np.testing.assert_array_equal(first.arms, second.arms)
        assert not np.isin(first.arms, third.arms).any()


def test_one_seed_object_stands_for_one_world_however_often_it_is_used():
    seed = np.random.SeedSequence(3)
    env = Linear(**SMALL)
    one, two = env.world(10, seed), env.world(10, seed)
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.turn(4).arms, two.turn(4).arms)


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("pool", [None, 9])
@settings(max_examples=15)
@given(steps=st.lists(st.integers(0, 90), min_size=1, max_size=12))
def test_steps_can_be_visited_in_any_order(schedule, pool, steps):
    """Over several blocks, forwards, backwards and twice."""
    block, module._BLOCK = module._BLOCK, 600  # seven steps of all agents, thirty of one
    try:
        env = Linear(**SMALL, pool=pool, schedule=schedule)
        straight, jumping = world(env), world(env)
        kept = []
        for step in range(91):
            turn = straight.turn(step)
            picks = np.zeros(len(turn.who), dtype=np.int64)
            kept.append((turn.who.copy(), turn.arms.copy(), straight.pay(step, picks).rewards))
        for step in steps:
            turn = jumping.turn(step)
            picks = np.zeros(len(turn.who), dtype=np.int64)
            found = (turn.who, turn.arms, jumping.pay(step, picks).rewards)
            for mine, theirs in zip(found, kept[step], strict=True):
                np.testing.assert_array_equal(mine, theirs)
    finally:
        module._BLOCK = block


@every_variant
def test_common_random_numbers(make):
    """The noise of a decision belongs to (step, agent): any two choices are paid the same noise, and choices made
    before change nothing.
    """
    one, two = (world(make(noise=0.3)) for _ in range(2))
    rng = np.random.default_rng(0)
    for step in range(30):
        turn = one.turn(step)
        means = means_of(one, turn)
        rows = np.arange(len(turn.who))
        left, right = (rng.integers(5, size=len(turn.who)) for _ in range(2))
        noise_left = one.pay(step, left).rewards - means[rows, left]
        noise_right = two.pay(step, right).rewards - means[rows, right]
        np.testing.assert_allclose(noise_left, noise_right, atol=1e-12)
        assert np.unique(noise_left.round(9)).size == len(noise_left)


@every_variant
def test_regret_is_the_gap_of_means(make):
    """Non-negative, zero for the best arm, free of noise."""
    instance = world(make())
    for step in range(20):
        turn = instance.turn(step)
        means = means_of(instance, turn)
        for k in range(5):
            picks = np.full(len(turn.who), k)
            regrets = instance.pay(step, picks).regrets
            assert (regrets >= 0).all()
            np.testing.assert_allclose(regrets, means.max(axis=1) - means[:, k], atol=1e-12)
        assert not instance.pay(step, means.argmax(axis=1)).regrets.any()


@every_variant
def test_parameters_and_arms_have_unit_norm(make):
    instance = world(make())
    np.testing.assert_allclose(np.linalg.norm(instance.theta, axis=1), 1)
    for step in range(10):
        np.testing.assert_allclose(np.linalg.norm(instance.turn(step).arms, axis=2), 1)


def test_shared_coordinates_are_shared_and_the_others_are_not():
    instance = world(LinearShared(clients=6, dim=5, arms=3, shared=3))
    assert instance.theta.shape == (6, 5)
    assert (instance.theta[:, :3] == instance.theta[0, :3]).all()
    assert len(np.unique(instance.theta[:, 3:], axis=0)) == 6
    np.testing.assert_allclose((instance.theta[:, :3] ** 2).sum(axis=1), 3 / 5)
    assert instance.problem.get(Shared) == Shared(3)


def test_the_problem_says_what_may_be_known():
    problem = world(Linear(**SMALL, noise=0.25), horizon=77).problem
    assert problem == fb.Problem(agents=4, dim=4, arms=5, horizon=77, facts=(Noise(0.25), Norms(1.0, 1.0)))


def test_noise_is_gaussian_of_the_stated_size():
    instance = world(Linear(clients=50, dim=2, arms=1, noise=0.4), horizon=200)
    noise = []
    for step in range(200):
        turn = instance.turn(step)
        noise.append(instance.pay(step, np.zeros(50, dtype=np.int64)).rewards - turn.arms[:, 0] @ instance.theta[0])
    noise = np.concatenate(noise)
    assert stats.kstest(noise / 0.4, "norm").pvalue > 1e-3


def test_without_noise_rewards_are_means():
    instance = world(Linear(**SMALL, noise=0))
    turn = instance.turn(3)
    rewards = instance.pay(3, np.full(4, 2)).rewards
    np.testing.assert_allclose(rewards, turn.arms[:, 2] @ instance.theta[0], atol=1e-12)


def test_fresh_arms_are_uniform_on_the_sphere():
    """In three dimensions every coordinate of a uniform direction is uniform on [-1, 1] (Archimedes)."""
    instance = world(Linear(clients=100, dim=3, arms=10))
    arms = np.concatenate([instance.turn(step).arms.reshape(-1, 3) for step in range(10)])
    for axis in range(3):
        assert stats.kstest(arms[:, axis], "uniform", args=(-1, 2)).pvalue > 1e-3


def test_decaying_arms_have_smaller_and_smaller_coordinates():
    instance = world(Linear(clients=100, dim=4, arms=10, spread="decaying"))
    squares = np.mean([(instance.turn(step).arms ** 2).mean(axis=(0, 1)) for step in range(20)], axis=0)
    assert (np.diff(squares) < 0).all()


class TestPool:
    pool, arms = 7, 3

    def shown(self, steps=700):
        instance = world(Linear(clients=4, dim=2, arms=self.arms, pool=self.pool), horizon=steps)
        table = {row.tobytes(): index for index, row in enumerate(instance._source.pool)}
        found = [
            [[table[np.ascontiguousarray(arm).tobytes()] for arm in agent] for agent in instance.turn(step).arms]
            for step in range(steps)
        ]
        return np.array(found).reshape(-1, self.arms)

    def test_arms_are_drawn_without_replacement(self):
        assert all(len(set(row)) == self.arms for row in self.shown().tolist())

    def test_every_ordered_selection_is_equally_likely(self):
        """7 * 6 * 5 = 210 outcomes; positions tell nothing about value, as the contract of environments asks."""
        shown = self.shown(steps=3000)
        codes = shown @ np.array([49, 7, 1])
        counts = np.unique(codes, return_counts=True)[1]
        assert len(counts) == 210
        assert stats.chisquare(counts).pvalue > 1e-3

    def test_the_whole_pool_may_be_shown(self):
        instance = world(Linear(clients=2, dim=2, arms=4, pool=4))
        shown = {arm.tobytes() for arm in np.ascontiguousarray(instance.turn(0).arms[0])}
        assert shown == {arm.tobytes() for arm in instance._source.pool}


class TestStragglers:
    def turns(self, steps=2000, **parameters):
        instance = world(Linear(clients=10, dim=2, arms=2, stragglers=0.3, presence=0.2, **parameters))
        return [instance.turn(step) for step in range(steps)]

    def test_three_of_ten_are_there_in_a_fifth_of_the_steps(self):
        there = np.array([turn.reachable for turn in self.turns()])
        share = there.mean(axis=0)
        assert (share == 1).sum() == 7
        for late in np.flatnonzero(share < 1):
            assert stats.binomtest(int(there[:, late].sum()), 2000, 0.2).pvalue > 1e-3

    @pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
    def test_who_is_not_there_does_not_decide(self, schedule):
        for turn in self.turns(200, schedule=schedule):
            assert turn.reachable[turn.who].all()
            assert len(turn.arms) == len(turn.who)

    def test_the_others_see_what_they_would_have_seen(self):
        """Absence changes nobody's arms and nobody's noise."""
        full, thin = (world(Linear(clients=4, dim=2, arms=3, stragglers=s)) for s in (0.0, 0.5))
        for step in range(30):
            everybody, there = full.turn(step), thin.turn(step)
            np.testing.assert_array_equal(everybody.arms[there.who], there.arms)
            paid = full.pay(step, np.zeros(4, dtype=np.int64)), thin.pay(step, np.zeros(len(there.who), dtype=np.int64))
            np.testing.assert_array_equal(paid[0].rewards[there.who], paid[1].rewards)

    def test_nobody_late_means_everybody_reachable(self):
        assert world(Linear(clients=4, dim=2, arms=2)).turn(0).reachable is None


class TestAttendance:
    def who(self, schedule, steps=40, clients=4):
        instance = world(Linear(clients=clients, dim=2, arms=2, schedule=schedule))
        return [instance.turn(step).who.tolist() for step in range(steps)]

    def test_all(self):
        assert self.who("all") == [[0, 1, 2, 3]] * 40

    def test_round_robin(self):
        assert self.who("round-robin") == [[step % 4] for step in range(40)]

    def test_random_is_uniform_over_agents_and_pairs(self):
        awake = np.array(self.who("random", 4000, 5)).ravel()
        assert stats.chisquare(np.bincount(awake)).pvalue > 1e-3
        assert stats.chisquare(np.bincount(awake[:-1] * 5 + awake[1:])).pvalue > 1e-3

    def test_round_robin_goes_on_across_blocks(self, monkeypatch):
        monkeypatch.setattr(module, "_BLOCK", 12)  # three steps
        assert self.who("round-robin") == [[step % 4] for step in range(40)]


@pytest.mark.parametrize(
    ("kind", "parameters", "match"),
    [
        (Linear, {"clients": 0}, "clients"),
        (Linear, {"dim": 0}, "dim"),
        (Linear, {"dim": -3}, "dim"),
        (Linear, {"dim": 2.5}, "dim"),
        (Linear, {"arms": 0}, "arms"),
        (Linear, {"pool": 0}, "pool"),
        (Linear, {"arms": 9, "pool": 8}, "raise pool or lower arms"),
        (Linear, {"noise": -0.1}, "noise"),
        (Linear, {"noise": float("nan")}, "noise"),
        (Linear, {"noise": float("inf")}, "noise"),
        (Linear, {"schedule": "sometimes"}, "schedule"),
        (Linear, {"stragglers": 1.5}, "stragglers"),
        (Linear, {"presence": 0}, "presence"),
        (Linear, {"spread": "flat"}, "spread"),
        (Linear, {"agents": 5}, "agents"),
        (LinearShared, {"shared": 0}, "shared"),
        (LinearShared, {"dim": 5, "shared": 5}, "must be below dim=5"),
        (LinearShared, {"arms": 9, "pool": 8}, "raise pool or lower arms"),
    ],
)
def test_bad_parameters_are_refused(kind, parameters, match):
    with pytest.raises(fb.ConfigError, match=match):
        kind(**parameters)
