"""Functions over candidates that stay, over a box, and groups of cases of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Candidates, Link, Norms
from fedbandits.data import tables
from fedbandits.data.centroids import centroids
from fedbandits.environments import ClusteredClasses, Cosine8, Hartmann6

FIXTURES = Path(__file__).parents[1] / "fixtures"
SEED = np.random.SeedSequence(3)


def test_functions_are_the_well_known_ones():
    best = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    assert Hartmann6().values(best) == pytest.approx(3.32237, abs=1e-4)
    assert Cosine8().values(np.zeros(8)) == pytest.approx(0.8)
    assert Cosine8(literal=True).values(np.zeros(8)) == pytest.approx(-0.8)
    rng = np.random.default_rng(0)
    for kind in (Hartmann6, Cosine8):
        drawn = kind.low + (kind.high - kind.low) * rng.random((10_000, kind.inputs))
        assert np.abs(kind().values(drawn)).max() <= kind.largest


@pytest.mark.parametrize("kind", [Hartmann6, Cosine8])
def test_candidates_are_what_everybody_sees(kind):
    world = kind(clients=3, arms=9, noise=0.0).world(5, SEED)
    points, means = world.problem.get(Candidates).table(), world.mean_rewards()
    norms = world.problem.get(Norms)
    assert np.linalg.norm(points, axis=1).max() <= norms.arms
    assert np.abs(means).max() <= norms.arms * norms.parameter
    np.testing.assert_allclose(means, kind().values(points))
    for step in range(5):
        np.testing.assert_array_equal(world.turn(step).arms, np.broadcast_to(points, (3, *points.shape)))
    paid = world.pay(0, np.array([0, 4, 8]))
    np.testing.assert_allclose(paid.rewards, means[[0, 4, 8]])
    np.testing.assert_allclose(paid.regrets, means.max() - means[[0, 4, 8]])


def test_units_and_a_constant_are_for_generalized_models():
    world = Hartmann6(clients=2, arms=9, unit=True, constant=True).world(5, SEED)
    assert world.problem.get(Link).function == "logistic"
    assert world.problem.dim == 7
    assert (world.turn(0).arms[..., -1] == 1).all()
    assert (world.mean_rewards().min(), world.mean_rewards().max()) == (0.0, 1.0)


def test_a_box_shows_points_that_fill_it():
    world = Cosine8(clients=2, arms=64, shown="box", noise=0.0).world(4, SEED)
    assert world.problem.get(Candidates) is None
    assert world.mean_rewards() is None
    arms = world.turn(0).arms
    assert np.abs(arms).max() <= 1
    assert (np.sort(arms, axis=1)[:, ::16] < np.linspace(-1, 1, 5)[1:, None] + 0.05).all(), "evenly in each coordinate"
    assert (arms != world.turn(1).arms).all()
    picks = np.array([5, 6])
    np.testing.assert_allclose(world.pay(0, picks).rewards, Cosine8().values(arms[[0, 1], picks]))
    with pytest.raises(ValueError, match="unit"):
        Cosine8(shown="box", unit=True).world(4, SEED)


@pytest.fixture
def made_up(monkeypatch):
    pytest.importorskip("sklearn", reason="needs fedbandits[data]")
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))
    tables._joined.cache_clear()


@pytest.mark.parametrize("table", ["magic", "shuttle"])
def test_groups_of_cases_are_arms(table, made_up):
    world = ClusteredClasses(clients=2, arms=5, table=table).world(400, SEED)
    points, means = world.problem.get(Candidates).table(), world.mean_rewards()
    assert points.shape[0] == 5
    assert points.min() == 0
    assert points.max() == 1
    cases = tables.magic() if table == "magic" else tables.shuttle()
    frequent = np.bincount(cases.classes).max() / len(cases.classes)
    assert means.min() <= frequent <= means.max()
    best = int(means.argmax())
    paid = np.array([world.pay(step, np.full(2, best)).rewards for step in range(400)])
    assert set(np.unique(paid)) <= {0.0, 1.0}
    assert paid.mean() == pytest.approx(means[best], abs=0.08)
    other = ClusteredClasses(clients=2, arms=5, table=table).world(10, np.random.SeedSequence(4))
    np.testing.assert_allclose(np.sort(other.mean_rewards()), np.sort(means))


def test_more_groups_than_cases_are_refused(made_up):
    with pytest.raises(ConfigError, match="arms"):
        centroids(tables.magic(), 51, 1)
