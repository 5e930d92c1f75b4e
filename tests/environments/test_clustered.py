"""Clustered environments: distances, sizes, drift and presence are as declared."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.environments import ClusteredDrift, ClusteredLinear

HORIZON = 400


def made(environment, seed=0, horizon=HORIZON):
    return environment.world(horizon, np.random.SeedSequence(seed))


def gaps(theta):
    return np.linalg.norm(theta[:, None] - theta[None, :], axis=2)


def alike(world):
    labels = np.array(world.truth().clusters)
    return labels[:, None] == labels[None, :]


class TestParameters:
    @pytest.mark.parametrize("centres", ["sphere", "half-sphere", "equidistant"])
    @pytest.mark.parametrize("epsilon", [None, 0.0, 0.05])
    def test_alike_within_clusters_apart_across(self, centres, epsilon):
        gamma = 0.85
        env = ClusteredLinear(clients=40, dim=8, clusters=5, gamma=gamma, epsilon=epsilon, centres=centres)
        radius = 1 / (40 * np.sqrt(HORIZON)) if epsilon is None else epsilon
        for seed in range(20):
            world = made(env, seed)
            distance, same = gaps(world.theta), alike(world)
            assert distance[same].max() <= 2 * radius + 1e-12
            assert distance[~same].min() >= gamma - 1e-12

    def test_gamma_rejects_centres_that_are_too_close(self):
        """In two dimensions random directions are often close: gamma is active there, and without it they are."""
        close = ClusteredLinear(clients=30, dim=2, clusters=3, gamma=0.0, epsilon=0.0, centres="sphere")
        apart = ClusteredLinear(clients=30, dim=2, clusters=3, gamma=1.0, epsilon=0.0, centres="sphere")

        def nearest(env, seed):
            world = made(env, seed)
            return gaps(world.theta)[~alike(world)].min()

        assert min(nearest(close, seed) for seed in range(20)) < 0.3
        assert min(nearest(apart, seed) for seed in range(20)) >= 1.0

    @pytest.mark.parametrize("gamma", [0.05, 0.65, 0.85, 1.3])
    def test_equidistant_centres_are_unit_vectors_at_exactly_that_distance(self, gamma):
        epsilon = 0.01
        env = ClusteredLinear(clients=30, dim=9, clusters=6, gamma=gamma, epsilon=epsilon, centres="equidistant")
        centres = env._centres(np.random.default_rng(0), gamma + 2 * epsilon)
        np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1)
        np.testing.assert_allclose(gaps(centres)[~np.eye(6, dtype=bool)], gamma + 2 * epsilon)
        flat = ClusteredLinear(clients=30, dim=9, clusters=6, gamma=gamma, epsilon=0.0, centres="equidistant")
        world = made(flat)
        np.testing.assert_allclose(gaps(world.theta)[~alike(world)], gamma)

    @pytest.mark.parametrize("centres", ["sphere", "half-sphere"])
    def test_random_centres_are_unit_vectors_of_the_declared_half(self, centres):
        env = ClusteredLinear(clients=4, dim=6, clusters=4, epsilon=0.0, centres=centres)
        drawn = np.concatenate([env._centres(np.random.default_rng(seed), 0.0) for seed in range(50)])
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
        positive = (drawn.sum(axis=1) >= 0).mean()
        assert positive == 1 if centres == "half-sphere" else 0.3 < positive < 0.7

    def test_radii_fill_the_ball_around_the_centre(self):
        env = ClusteredLinear(clients=4000, dim=3, clusters=1, epsilon=0.2)
        centre = env._centres(np.random.default_rng(0), 0.0)
        around = env._around(np.random.default_rng(1), centre, np.zeros(4000, dtype=int), 0.2) - centre
        radii = np.linalg.norm(around, axis=1) / 0.2
        assert radii.max() <= 1 + 1e-12
        # r uniform in [0, epsilon], directions uniform
        np.testing.assert_allclose(np.quantile(radii, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.04)
        assert np.abs(around.mean(axis=0)).max() < 0.01

    def test_agents_are_spread_uniformly_over_balanced_clusters(self):
        env = ClusteredLinear(clients=50, clusters=5)
        counts = sum(np.bincount(made(env, seed).truth().clusters, minlength=5) for seed in range(60))
        np.testing.assert_allclose(counts / counts.sum(), 0.2, atol=0.03)

    def test_imbalanced_sizes_are_exact_and_agents_in_random_order(self):
        env = ClusteredLinear(clients=50, sizes=(26, *[2] * 12))
        first, second = (np.array(made(env, seed).truth().clusters) for seed in (0, 1))
        for labels in (first, second):
            assert np.bincount(labels).tolist() == [26] + [2] * 12
        assert (first != second).any()

    def test_the_same_seed_is_the_same_world_at_every_call(self):
        env = ClusteredLinear(clients=12, dim=4, arms=3, pool=20)
        seed = np.random.SeedSequence(3)
        first, second = env.world(HORIZON, seed), env.world(HORIZON, seed)
        np.testing.assert_array_equal(first.theta, second.theta)
        np.testing.assert_array_equal(first.turn(7).arms, second.turn(7).arms)
        assert first.truth() == second.truth()

    def test_decaying_arms_of_a_pool(self):
        """Unit norm, second moments falling from the first coordinate to the last, K distinct ones of the pool."""
        world = made(ClusteredLinear(clients=40, dim=5, arms=10, pool=200))
        shown = np.concatenate([world.turn(step).arms for step in range(100)])
        np.testing.assert_allclose(np.linalg.norm(shown, axis=2), 1)
        assert all(len(np.unique(arms, axis=0)) == 10 for arms in shown[::97])
        assert len(np.unique(shown.reshape(-1, 5), axis=0)) == 200
        many = made(ClusteredLinear(clients=40, dim=5, arms=10, pool=5000)).turn(0).arms.reshape(-1, 5)
        assert (many[:, 0] ** 2).mean() > 2 * (many[:, 4] ** 2).mean()


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "match"),
        [
            ({"clients": 10, "sizes": (5, 4)}, "sizes"),
            ({"clients": 10, "dim": 4, "clusters": 4, "centres": "equidistant"}, "equidistant"),
            ({"clusters": 0}, "clusters"),
            ({"gamma": -0.1}, "gamma"),
            ({"pool": 3}, "pool"),
        ],
    )
    def test_bad_parameters(self, parameters, match):
        with pytest.raises(ValueError, match=match):
            ClusteredLinear(**parameters)

    def test_centres_that_cannot_be_that_far_apart(self):
        with pytest.raises(ValueError, match="gamma"):
            made(ClusteredLinear(clients=10, dim=2, clusters=8, gamma=1.5, centres="sphere"))
        with pytest.raises(ValueError, match="gamma"):
            made(ClusteredLinear(clients=10, dim=5, clusters=3, gamma=1.5, centres="equidistant"))

    def test_drift_needs_somewhere_to_go(self):
        with pytest.raises(ValueError, match="clusters"):
            ClusteredDrift(clusters=1)


DRIFTING = {"clients": 40, "dim": 6, "arms": 5, "pool": 60, "clusters": 4}


class TestDrift:
    env = ClusteredDrift(**DRIFTING, at=0.6, movers=0.25)

    @pytest.mark.parametrize("seed", range(5))
    def test_only_the_movers_change_and_into_another_cluster(self, seed):
        world = made(self.env, seed)
        before, after = world._before.theta, world._after.theta
        changed = (before != after).any(axis=1)
        assert changed.sum() == 10
        old, new = np.array(world.truth(0).clusters), np.array(world.truth(HORIZON - 1).clusters)
        np.testing.assert_array_equal(old != new, changed)
        inside = np.array([[gaps(before)[old == k][:, old == k].max()] for k in np.unique(old)]).max()
        for i in np.flatnonzero(changed):
            assert np.linalg.norm(after[i] - before[old == new[i]], axis=1).max() <= inside + 1e-12
            assert np.linalg.norm(after[i] - before[i]) > 0.8

    def test_nothing_changes_before_and_everything_at_once(self):
        drifting = made(self.env)
        still = made(ClusteredLinear(**DRIFTING))
        picks = np.zeros(40, dtype=np.int64)
        moved = (drifting._before.theta != drifting._after.theta).any(axis=1)
        assert drifting.change == 240
        for step in (0, 100, 239, 240, 241, 399):
            np.testing.assert_array_equal(drifting.turn(step).arms, still.turn(step).arms)
            one, two = drifting.pay(step, picks), still.pay(step, picks)
            np.testing.assert_array_equal(one.rewards[~moved], two.rewards[~moved])
            differs = one.rewards[moved] != two.rewards[moved]
            assert differs.all() if step >= 240 else not differs.any()

    def test_movers_never_head_for_an_empty_cluster(self):
        """Three agents in nine clusters: most are empty, and yet whoever is to move does."""
        env = ClusteredDrift(clients=3, dim=12, clusters=9, movers=1.0)
        for seed in range(10):
            world = made(env, seed)
            old, new = np.array(world.truth(0).clusters), np.array(world.truth(HORIZON).clusters)
            if len(set(old)) == 1:
                np.testing.assert_array_equal(old, new)
            else:
                assert (old != new).all()
                assert set(new) <= set(old)

    @pytest.mark.parametrize(("movers", "count"), [(0.0, 0), (1.0, 40)])
    def test_nobody_or_everybody_moves(self, movers, count):
        world = made(ClusteredDrift(**DRIFTING, movers=movers))
        assert (world._before.theta != world._after.theta).any(axis=1).sum() == count


class TestPresence:
    env = ClusteredLinear(clients=20, dim=4, arms=3, pool=20, clusters=2, stragglers=0.3, presence=0.2)

    def test_stragglers_are_there_at_their_rate_and_the_others_always(self):
        world = made(self.env)
        there = np.array([world.turn(step).reachable for step in range(2000)])
        rates = there.mean(axis=0)
        late = rates < 1
        assert late.sum() == 6
        np.testing.assert_allclose(rates[late], 0.2, atol=5 * np.sqrt(0.16 / 2000))
        # apart from each other and from step to step
        together = np.corrcoef(there[:, late].T)[~np.eye(6, dtype=bool)]
        assert np.abs(together).max() < 5 / np.sqrt(2000)

    def test_who_is_away_neither_decides_nor_is_paid(self):
        world = made(self.env)
        for step in range(50):
            turn = world.turn(step)
            np.testing.assert_array_equal(turn.who, np.flatnonzero(turn.reachable))
            assert len(turn.arms) == len(turn.who)
            assert len(world.pay(step, np.zeros(len(turn.who), dtype=np.int64)).rewards) == len(turn.who)

    def test_who_is_there_sees_and_earns_what_it_would_without_stragglers(self):
        alone = made(ClusteredLinear(clients=20, dim=4, arms=3, pool=20, clusters=2))
        world = made(self.env)
        for step in range(0, HORIZON, 40):
            turn = world.turn(step)
            picks = np.ones(20, dtype=np.int64)
            np.testing.assert_array_equal(turn.arms, alone.turn(step).arms[turn.who])
            np.testing.assert_array_equal(
                world.pay(step, picks[turn.who]).rewards, alone.pay(step, picks).rewards[turn.who]
            )

    def test_without_stragglers_everybody_can_be_reached(self):
        assert made(ClusteredLinear(clients=5, clusters=2)).turn(0).reachable is None

    def test_decisions_are_counted_as_they_happen(self):
        trace = fb.simulate(fb.algorithms.Random(), self.env, 300)
        per_step = np.diff(trace.decisions, prepend=0)
        assert per_step.min() >= 14
        assert per_step.max() <= 20
        assert abs(per_step.mean() - (14 + 6 * 0.2)) < 5 * np.sqrt(6 * 0.16 / 300)
