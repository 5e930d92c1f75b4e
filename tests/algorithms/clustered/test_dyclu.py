"""DyClu: neighbourhoods by the central test, surprises at their level, and models that are given up."""

from __future__ import annotations

import numpy as np
import pytest
from clustered_data import by_definition
from scipy.stats import binom, chi2

from fedbandits.algorithms import DyClu
from fedbandits.environments import ClusteredDrift, ClusteredLinear
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.recording import recorded

N, D = 12, 4
SHAPE = {"clients": N, "dim": D, "arms": 6, "pool": 60, "sizes": (5, 4, 3), "centres": "equidistant", "gamma": 1.2}
ENV = ClusteredLinear(**SHAPE)


def finished(algorithm, env, horizon, seed=0):
    simulation = Simulation(algorithm, env, horizon, seed)
    simulation.run()
    return simulation


def alike(labels):
    labels = np.array(labels)
    return labels[:, None] == labels[None, :]


@pytest.mark.parametrize("seed", range(4))
def test_neighbourhoods_are_the_true_clusters(seed):
    run = finished(DyClu(level=1e-4), ENV, 300, seed)
    np.testing.assert_array_equal(run.server.group, alike(run.world.truth().clusters))


def test_neighbours_and_surprises_by_definition_from_raw_data():
    """Every decision of the server recomputed with least squares on the raw observations it kept."""
    algorithm = DyClu(level=0.05)
    X = [np.zeros((0, D)) for _ in range(N)]
    y = [np.zeros(0) for _ in range(N)]
    surprises = 0
    for event in recorded(algorithm, ENV, 40):
        for row, i in enumerate(event.who):
            x, reward = event.arms[row, event.picks[row]], event.rewards[row]
            if np.linalg.matrix_rank(X[i]) == D:
                theta = np.linalg.lstsq(X[i], y[i], rcond=None)[0]
                spread = 0.1**2 * (1 + x @ np.linalg.inv(X[i].T @ X[i]) @ x)
                if (reward - x @ theta) ** 2 / spread > chi2.isf(0.05, 1):
                    surprises += 1
                    continue
            X[i], y[i] = np.vstack([X[i], x]), np.append(y[i], reward)
        server = event.side.server
        np.testing.assert_array_equal(server.own.count, [len(kept) for kept in y])
        for i in range(N):
            for j in range(i):
                s, freedom = by_definition(X[i], y[i], X[j], y[j])
                expected = freedom == 0 or chi2.sf(s / 0.1**2, freedom) > 0.05
                assert server.group[i, j] == server.group[j, i] == expected
    assert surprises > 5
    assert len(server.outdated.count) == 0


def test_on_stationary_data_surprises_come_at_their_level():
    """Discarding the largest errors narrows the data a little, so the rate may lie somewhat above the level."""
    level, horizon = 0.02, 1000
    run = finished(DyClu(level=level), ClusteredLinear(**(SHAPE | {"arms": 1, "pool": None})), horizon)
    assert len(run.server.outdated.count) == 0, "nobody changed"
    trials = N * (horizon - D)
    discarded = N * horizon - run.server.own.count.sum()
    assert binom.ppf(1e-4, trials, level) < discarded < binom.isf(1e-4, trials, 1.2 * level)


class TestChange:
    ENV = ClusteredDrift(**SHAPE, movers=1 / N)
    HORIZON = 300

    @pytest.mark.parametrize("seed", range(3))
    def test_a_changed_agent_starts_anew_and_finds_its_new_cluster(self, seed):
        run = finished(DyClu(level=1e-3), self.ENV, self.HORIZON, seed)
        before, after = run.world.truth(0).clusters, run.world.truth(self.HORIZON).clusters
        mover = np.flatnonzero(np.array(before) != np.array(after))
        assert len(mover) == 1
        server = run.server
        assert len(server.outdated.count) == 1, "one model archived"
        assert self.HORIZON / 2 - 10 < server.outdated.count[0] <= self.HORIZON / 2 + 10, "what it had learned before"
        assert server.own.count[mover[0]] < self.HORIZON / 2 + 5
        np.testing.assert_array_equal(server.group, alike(after))
        # the old model still helps those it fits, and no longer the one who made it
        np.testing.assert_array_equal(server.linked[:, 0], np.array(after) == np.array(before)[mover[0]])

    def test_regret_returns_to_what_it_was_and_without_detection_it_does_not(self):
        def late(detection):
            run = finished(DyClu(level=1e-3, change_detection=detection), self.ENV, self.HORIZON)
            return np.diff(run.trace().regret[[-51, -1]])[0], np.diff(run.trace().regret[[99, 149]])[0]

        after, before = late(True)
        assert after < before + 0.5
        assert late(False)[0] > 10 * after
