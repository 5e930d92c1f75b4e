"""2000 clients in 20 clusters run through: tests of two million pairs, their cliques, and services."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.algorithms import HetoFedBandit
from fedbandits.algorithms.clustered.clusters import clusters_of, partition
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest
from fedbandits.environments import ClusteredLinear
from fedbandits.simulation.loop import Simulation

N, M = 2000, 20


@pytest.mark.parametrize("adaptive", [False, True])
def test_two_million_pairs(adaptive):
    rng = np.random.default_rng(0)
    d, rows, noise = 8, 150, 0.1
    labels = rng.integers(M, size=N)
    centres = rng.standard_normal((M, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    X = rng.standard_normal((N, rows, d)) / np.sqrt(d)
    y = np.einsum("nmd,nd->nm", X, centres[labels]) + noise * rng.standard_normal((N, rows))
    test = HomogeneityTest(noise, 0.1 / N**2, 1 / (N * noise) ** 2, adaptive)
    graph = test.graph(X.swapaxes(1, 2) @ X, np.einsum("nmd,nm->nd", X, y))
    np.testing.assert_array_equal(graph, (labels[:, None] == labels[None, :]) & ~np.eye(N, dtype=bool))
    assert {row.tobytes() for row in clusters_of(graph)} == {row.tobytes() for row in partition(labels)}


def test_a_whole_run():
    """Exploration, test, and one service for each cluster, one per step."""
    env = ClusteredLinear(clients=N, clusters=M, dim=8, arms=5)
    run = Simulation(HetoFedBandit(explore=60), env, 60 + M)
    run.run()
    truth = partition(np.array(run.world.truth().clusters))
    assert {row.tobytes() for row in run.server.clusters} == {row.tobytes() for row in truth}
    trace = run.trace()
    assert trace.messages[58] == 0
    assert trace.messages[-1] == N + 2 * N
    assert trace.syncs[-1] == M
