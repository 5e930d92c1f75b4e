"""FCLUB-DC: it separates and it merges, which the released code never does."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import FCLUBDC, DisLinUCB, IndependentLinUCB
from fedbandits.contract.wire import Wire
from fedbandits.environments import ClusteredLinear
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.recording import recorded
from fedbandits.testing.worlds import Together
from fedbandits.transport.carriers import hold

N, D = 12, 4
SHAPE = {"clients": N, "dim": D, "arms": 6, "pool": 60, "centres": "equidistant", "gamma": 1.2}
THREE = ClusteredLinear(**SHAPE, sizes=(5, 4, 3))
PHASE_ENDS = [2**k - 1 for k in range(1, 10)]


def found(server):
    return server.labels[:, None] == server.labels[None, :]


def truth(world):
    labels = np.array(world.truth().clusters)
    return labels[:, None] == labels[None, :]


def partitions(algorithm, env, horizon, seed=0):
    """The number of clusters at the end of every phase, and the finished run."""
    run, sizes = Simulation(algorithm, env, horizon, seed), []
    for step in range(1, horizon + 1):
        before = run.server.labels.copy()
        run.run(1)
        if step in PHASE_ENDS:
            sizes.append(len(set(run.server.labels.tolist())))
        else:
            np.testing.assert_array_equal(run.server.labels, before, "partitions change at the end of phases only")
    return sizes, run


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_agents_separated_too_early_are_merged_again(seed):
    """A hasty test splits more than there is to split; later phases put together what belongs together."""
    sizes, run = partitions(FCLUBDC(separation=0.25), THREE, 511, seed)
    assert max(sizes) > 3
    assert sizes[-1] == 3
    np.testing.assert_array_equal(found(run.server), truth(run.world))


@pytest.mark.slow
def test_even_a_federation_of_equals_is_merged_after_a_split():
    sizes, _ = partitions(FCLUBDC(separation=0.15), ClusteredLinear(**SHAPE, clusters=1), 255, 0)
    assert max(sizes) > 1
    assert sizes[-1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_by_default_the_true_clusters_are_found(seed):
    sizes, run = partitions(FCLUBDC(), THREE, 300, seed)
    np.testing.assert_array_equal(found(run.server), truth(run.world))
    assert sizes[0] == 1, "all together at first"


def test_merging_pays():
    """Against the all-singletons state that the released code never leaves, paired over seeds."""
    env = ClusteredLinear(**(SHAPE | {"clients": 24, "dim": 6, "arms": 10, "pool": 100}), clusters=2)
    merging, singletons = (
        np.array([fb.simulate(FCLUBDC(separation=c), env, 511, seed).regret[-1] for seed in range(5)])
        for c in (0.3, 1e-9)
    )
    gap = singletons - merging
    assert gap.mean() > 4 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_an_agent_acts_on_its_cluster_alone():
    """After every step, what an agent knows is a sum of its cluster-mates' uploads plus what it has not uploaded."""
    for event in recorded(FCLUBDC(separation=0.3), THREE, 200):
        server, models = event.side.server, event.side.agents.models
        held = models.base.gram
        np.testing.assert_allclose(held, server.known.gram, atol=1e-9)
        np.testing.assert_allclose(models.base.count, server.known.count)
        pool = np.einsum("ij,jde->ide", found(server).astype(float), server.own.gram)
        lacking = np.linalg.eigvalsh(pool - held)
        assert (lacking > -1e-9).all(), "something from outside its cluster"


def test_who_is_away_when_the_partition_changes_is_told_later():
    world = THREE.world(200, np.random.SeedSequence(0))
    side = Together(FCLUBDC(separation=0.5), world.problem, np.random.SeedSequence(1), Wire())
    everybody = np.ones(N, dtype=bool)
    without = everybody.copy()
    without[0] = False
    missed = False
    for step in range(200):
        turn = world.turn(step)
        changes = step + 1 in PHASE_ENDS
        side.carrier.reachable = without if changes else everybody
        who = np.flatnonzero(side.carrier.reachable)
        picks = side.choose(who, turn.arms[who])
        rewards = world.pay(step, np.insert(picks, 0, 0) if changes else picks).rewards
        side.learn(who, turn.arms[who], picks, rewards[who])
        callers = side.calling()
        hold(side.server, callers[side.carrier.reachable[callers]], side.carrier)
        missed = missed or side.server.moved[0]
        if not changes and len(callers):
            assert not side.server.moved.any()
    assert missed
    np.testing.assert_array_equal(found(side.server), truth(world))
    held = side.agents.models.base.gram[0]
    mates = side.server.own.gram[found(side.server)[0]].sum(axis=0)
    assert np.linalg.eigvalsh(mates - held).min() > -1e-9


def problem_of(noise):
    return ClusteredLinear(**SHAPE, clusters=2, noise=noise).world(10, np.random.SeedSequence(0)).problem


def test_the_published_width_is_asked_for_by_name():
    widths = FCLUBDC(width="published").widths(problem_of(0.1), 25)(np.zeros(2), np.array([0.0, 100.0]))
    np.testing.assert_allclose(widths, 0.5 * np.sqrt(2 * np.log(4 / 3) + 25 * np.log([3.0, 7.0])))


@pytest.mark.parametrize("width", ["theory", "loose", 0.3])
def test_widths_are_those_of_the_family(width):
    logdet, count = np.array([0.0, 4.0]), np.array([0.0, 100.0])
    for noise in (0.05, 0.5):
        ours, linear = (
            kind(width=width, ridge=0.1).widths(problem_of(noise), 25)(logdet, count) for kind in (FCLUBDC, DisLinUCB)
        )
        np.testing.assert_array_equal(ours, linear)


def test_by_default_the_width_knows_the_noise():
    """The released constants are made for noise of 1/2; with them, little noise does not help."""
    quiet, loud = (FCLUBDC().widths(problem_of(noise), 25)(np.zeros(1), np.zeros(1)) for noise in (0.05, 0.5))
    assert quiet < loud
    env = ClusteredLinear(clients=24, dim=8, arms=10, pool=200, clusters=3, noise=0.05)
    ours, released = (
        np.array([fb.simulate(algorithm, env, 500, seed).regret[-1] for seed in range(4)])
        for algorithm in (FCLUBDC(), FCLUBDC(width="published", ridge=2.0, separation=2.0))
    )
    assert (ours < 0.6 * released).all()


@pytest.mark.slow
def test_in_the_setting_of_figure_2_it_has_less_than_half_the_regret_of_learning_alone():
    env = ClusteredLinear(clients=50, dim=25, arms=25, pool=1000, clusters=5, gamma=0.85, noise=0.1)
    ours, never_merged, alone = (
        np.array([fb.simulate(algorithm, env, 3000, seed).regret[-1] for seed in range(2)])
        for algorithm in (FCLUBDC(), FCLUBDC(separation=1e-9), IndependentLinUCB(ridge=0.1))
    )
    assert (ours < 0.55 * alone).all()
    assert (ours < 0.55 * never_merged).all()
