"""CLUB: edges vanish by the published rule and never return; components are the clusters."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import CLUB, CentralLinUCB, IndependentLinUCB
from fedbandits.algorithms.clustered.grouping import components, shrinking
from fedbandits.environments import ClusteredLinear
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.recording import recorded

N, D = 12, 4
HORIZON = 200
ENV = ClusteredLinear(clients=N, dim=D, arms=6, pool=60, sizes=(5, 4, 3), centres="equidistant", gamma=1.2)


def truth(world):
    labels = np.array(world.truth().clusters)
    return labels[:, None] == labels[None, :]


def test_reach_shrinks_as_published():
    np.testing.assert_allclose(
        shrinking(np.array([0.0, 1, 99])), [1, np.sqrt((1 + np.log(2)) / 2), np.sqrt(0.056051702)]
    )


def test_components_of_a_path_and_a_pair():
    adjacent = np.zeros((6, 6), dtype=bool)
    for i, j in ((0, 1), (1, 4), (2, 5)):
        adjacent[i, j] = adjacent[j, i] = True
    labels = components(adjacent)
    assert labels[0] == labels[1] == labels[4]
    assert labels[2] == labels[5]
    assert len(set(labels.tolist())) == 3


@pytest.mark.parametrize("schedule", ["all", "random"])
def test_the_graph_follows_the_rule_and_only_loses_edges(schedule):
    """Recomputed with numpy from raw observations: after every step, for the pairs with news."""
    algorithm = CLUB(separation=0.5)
    env = ClusteredLinear(
        clients=N, dim=D, arms=6, pool=60, sizes=(5, 4, 3), centres="equidistant", gamma=1.2, schedule=schedule
    )
    gram, moment, count = np.zeros((N, D, D)), np.zeros((N, D)), np.zeros(N)
    graph = ~np.eye(N, dtype=bool)
    lost = 0
    for event in recorded(algorithm, env, HORIZON if schedule == "all" else 8 * HORIZON):
        chosen = event.arms[np.arange(len(event.who)), event.picks]
        gram[event.who] += np.einsum("wd,we->wde", chosen, chosen)
        moment[event.who] += event.rewards[:, None] * chosen
        count[event.who] += 1
        theta = np.linalg.solve(gram + algorithm.ridge * np.eye(D), moment[..., None])[..., 0]
        reach = np.sqrt((1 + np.log(1 + count)) / (1 + count))
        near = np.linalg.norm(theta[:, None] - theta[None, :], axis=2) <= 0.5 * (reach[:, None] + reach[None, :])
        fresh = np.isin(np.arange(N), event.who)
        kept = graph & (near | ~(fresh[:, None] | fresh[None, :]))
        lost += (graph & ~kept).sum()
        graph = kept
        np.testing.assert_array_equal(event.side.server.graph, graph)
    assert lost > 0


@pytest.mark.parametrize("seed", range(4))
def test_the_true_clusters_are_found(seed):
    simulation = Simulation(CLUB(), ENV, 500, seed)
    simulation.run()
    np.testing.assert_array_equal(simulation.server.group, truth(simulation.world))


def test_a_separation_beyond_reach_is_central_and_none_is_alone():
    """The two ends: nobody is ever separated, or everybody is by its first observation."""
    together = fb.simulate(CLUB(separation=1e6), ENV, 100)
    np.testing.assert_allclose(together.regret, fb.simulate(CentralLinUCB(), ENV, 100).regret, atol=1e-9)
    apart = fb.simulate(CLUB(separation=1e-9), ENV, 100)
    np.testing.assert_allclose(apart.regret, fb.simulate(IndependentLinUCB(), ENV, 100).regret, atol=1e-9)
