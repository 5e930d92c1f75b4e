"""Rewards that are curved: the functions, what random play costs, and contexts of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.contract.errors import ConfigError
from fedbandits.environments.curved import RELEASED, Cosine, Square

SEED = np.random.SeedSequence(5)
STEPS = 400


def shown(environment, seed=SEED):
    """Arms (T, n, K, d) and mean rewards (T, n, K)."""
    world = environment.world(STEPS, seed)
    arms = np.stack([world.turn(step).arms for step in range(STEPS)])
    return arms, world


def means(world, arms):
    found = np.empty(arms.shape[:3])
    for step in range(len(arms)):
        for k in range(arms.shape[2]):
            outcome = world.pay(step, np.full(arms.shape[1], k))
            found[step, :, k] = -outcome.regrets
    return found


@pytest.mark.parametrize(
    ("kind", "h", "cost"), [(Cosine, lambda s: np.cos(3 * s), 0.314), (Square, lambda s: 10 * s**2, 1.374)]
)
def test_values_and_costs_are_those_of_the_publication(kind, h, cost):
    """Costs of random play were measured beforehand with the released generator; here 16,000 arms, the standard error
    of the second is 0.02.
    """
    arms, world = shown(kind(clients=10, contexts="cube", direction="released"))
    np.testing.assert_allclose(np.linalg.norm(arms, axis=-1), 1)
    a = np.array(RELEASED) / np.linalg.norm(RELEASED)
    values = h(arms @ a)
    np.testing.assert_allclose(means(world, arms), values - values.max(axis=2, keepdims=True), atol=1e-12)
    assert (values.max(axis=2) - values.mean(axis=2)).mean() == pytest.approx(cost, rel=0.06)


def test_noise_is_what_it_says():
    world = Square(clients=200, noise=0.3).world(20, SEED)
    arms = world.turn(0).arms
    quiet = Square(clients=200, noise=0.0).world(20, SEED)
    picks = np.zeros(200, dtype=np.int64)
    gaps = world.pay(0, picks).rewards - quiet.pay(0, picks).rewards
    assert arms.shape == (200, 4, 10)
    assert np.std(gaps) == pytest.approx(0.3, rel=0.25)


def test_directions_are_drawn_for_each_run():
    worlds = [Cosine(clients=2).world(5, np.random.SeedSequence(seed)) for seed in (1, 2)]
    directions = [world._source._direction for world in worlds]
    assert abs(directions[0] @ directions[1]) < 0.99
    for direction in directions:
        assert np.linalg.norm(direction) == pytest.approx(1)


def test_regions_are_apart():
    def spread(regions):
        arms, _ = shown(Cosine(clients=3, regions=regions))
        centres = arms.mean(axis=(0, 2))
        return np.linalg.norm(centres, axis=1)

    assert (spread(0.0) < 0.1).all()
    np.testing.assert_allclose(spread(1.0), np.cos(np.pi / 4), atol=0.06)


def test_doubled_contexts_say_the_same_twice():
    plain, doubled = (shown(Cosine(clients=2, doubled=both))[0] for both in (False, True))
    np.testing.assert_allclose(doubled[..., :10] * np.sqrt(2), plain)
    np.testing.assert_array_equal(doubled[..., :10], doubled[..., 10:])


def test_the_released_direction_has_ten_coordinates():
    with pytest.raises(ConfigError, match="dim=5: the released direction has 10 coordinates"):
        Cosine(dim=5, direction="released")
