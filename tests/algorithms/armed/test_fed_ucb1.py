"""FedUCB1, FedUCB1-Best and CentUCB1: limits, who learns from whom, and the order of regret."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.graphs import Given
from fedbandits.graphs.leaders import clique_of, leadership
from fedbandits.simulation.loop import Simulation

STYLES = [fb.algorithms.FedUCB1, fb.algorithms.FedUCB1Best, fb.algorithms.CentUCB1]


def arms(clients, **parameters):
    return fb.environments.BernoulliArms(**({"clients": clients, "arms": 4} | parameters))


def played(algorithm, env, horizon, network, seed=0):
    """The actions of everybody in every round, and the run."""
    run = Simulation(algorithm, env, horizon, seed, network=network)
    actions = []
    for _ in range(horizon):
        before = run.agents.known.counts.copy()
        run.run(steps=1)
        actions.append(run.agents.pulled.copy())
        assert (run.agents.known.counts >= before).all()
    return np.array(actions), run


@pytest.mark.parametrize("style", STYLES)
def test_without_hops_everybody_plays_ucb1(style):
    env = arms(6)
    alone = fb.simulate(fb.algorithms.UCB1(), env, 200, 3)
    together = fb.simulate(style(), env, 200, 3, network=Given.of(nx.complete_graph(6), ttl=0))
    np.testing.assert_array_equal(alone.regret, together.regret)
    assert together.messages[-1] == 0


def test_on_a_complete_graph_all_know_the_same():
    run = Simulation(fb.algorithms.FedUCB1(), arms(7), 50, 1, network=nx.complete_graph(7))
    for step in range(1, 51):
        run.run(steps=1)
        counts = run.agents.known.counts
        assert (counts == counts[0]).all()
        assert counts[0].sum() == 7 * step


@pytest.mark.parametrize("ttl", [1, 2, 3, 4])
def test_samples_held_lie_between_the_bounds_of_lemma_2_1(ttl):
    """At most all that was pulled within gamma hops, and at most (|neighbourhood| - 1)(gamma - 1) of it missing."""
    graph = nx.random_labeled_tree(12, seed=4)
    actions, run = played(fb.algorithms.FedUCB1(), arms(12), 40, Given.of(graph, ttl=ttl))
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    for agent in range(12):
        near = [other for other in range(12) if distance[agent][other] <= ttl]
        for arm in range(4):
            pulled = int((actions[:, near] == arm).sum())
            held = int(run.agents.known.counts[agent, arm])
            assert max(0, pulled - (len(near) - 1) * (ttl - 1)) <= held <= pulled


def test_within_cliques_only():
    """The printed rule: agents learn from their clique of a clique cover alone."""
    graph = nx.connected_caveman_graph(3, 4)
    run = Simulation(fb.algorithms.FedUCB1(listens="clique"), arms(12), 30, 0, network=graph)
    run.run()
    cliques = clique_of(graph, 1)
    sizes = np.bincount(cliques)[cliques]
    np.testing.assert_array_equal(run.agents.known.counts.sum(axis=1), 30 * sizes)
    everybody = Simulation(fb.algorithms.FedUCB1(), arms(12), 30, 0, network=graph)
    everybody.run()
    assert (everybody.agents.known.counts.sum(axis=1) >= 30 * sizes).all()
    assert everybody.agents.known.counts.sum() > run.agents.known.counts.sum()


@pytest.mark.parametrize("ttl", [1, 2, 3])
def test_followers_repeat_their_leader_as_late_as_it_is_far(ttl):
    graph = nx.random_labeled_tree(15, seed=1)
    actions, _ = played(fb.algorithms.CentUCB1(), arms(15), 60, Given.of(graph, ttl=ttl))
    led = leadership(graph, ttl)
    followers = np.flatnonzero(led.leader != np.arange(15))
    assert len(followers) >= 5
    for follower in followers:
        late = int(led.distance[follower])
        start = max(4, late)
        np.testing.assert_array_equal(
            actions[start:, follower], actions[start - late : 60 - late, led.leader[follower]]
        )


def test_leaves_of_a_star_believe_its_centre():
    """The centre has most samples of every arm; from its first message on, leaves act on its estimates."""
    run = Simulation(fb.algorithms.FedUCB1Best(), arms(9), 60, 2, network=nx.star_graph(8))
    run.run()
    agents = run.agents
    hub, leaves = 0, np.arange(1, 9)
    assert (agents.best_samples[leaves] > agents.known.counts[leaves]).all()
    np.testing.assert_array_equal(agents.best_samples[leaves], np.tile(agents.samples[hub], (8, 1)))
    np.testing.assert_array_equal(agents.best_estimate[leaves], np.tile(agents.estimate[hub], (8, 1)))


def regrets(algorithm, env, horizon, network, seeds=8):
    return np.array([fb.simulate(algorithm, env, horizon, seed, network=network).regret[-1] for seed in range(seeds)])


def below(left, right):
    """Whether `left` is below `right` by three standard errors of the paired differences."""
    gap = right - left
    return gap.mean() > 3 * gap.std(ddof=1) / np.sqrt(len(gap))


@pytest.mark.slow
def test_company_helps_the_more_the_better_it_is_organised():
    env = arms(40, best=0.8, rest=0.5)
    network = fb.network.ErdosRenyi(p=0.12, ttl=1)
    algorithms = {
        "best": fb.algorithms.FedUCB1Best(),
        "leader": fb.algorithms.CentUCB1(),
        "all": fb.algorithms.FedUCB1(),
        "alone": fb.algorithms.UCB1(),
    }
    found = {
        name: regrets(algorithm, env, 600, None if name == "alone" else network)
        for name, algorithm in algorithms.items()
    }
    assert below(found["best"], found["all"])
    assert below(found["leader"], found["all"])
    assert below(found["all"], found["alone"])


@pytest.mark.slow
def test_the_farther_messages_travel_the_better():
    env = arms(30, best=0.8, rest=0.5)
    found = [regrets(fb.algorithms.FedUCB1(), env, 500, fb.network.Ring(ttl=ttl)) for ttl in (0, 1, 4, 15)]
    assert below(found[1], found[0])
    assert below(found[2], found[1])
    assert below(found[3], found[2])


@pytest.mark.slow
def test_a_trimmed_mean_withstands_heavy_tails():
    env = fb.environments.StableArms(clients=30, arms=4, alpha=1.5, best=1.0, rest=0.0)
    network = fb.network.ErdosRenyi(p=0.3, ttl=2)
    trimmed = regrets(fb.algorithms.FedUCB1(mean="trimmed", scale=0.02), env, 500, network, seeds=16)
    plain = regrets(fb.algorithms.FedUCB1(), env, 500, network, seeds=16)
    assert below(np.log(trimmed), np.log(plain))


@pytest.mark.slow
@pytest.mark.parametrize("robust", ["RobustFedUCB", "RobustFedUCBBest", "RobustCentUCB"])
def test_a_robust_mean_withstands_byzantine_neighbours(robust):
    env = fb.environments.GaussianArms(clients=20, arms=4, best=1.0, rest=0.0, noise=1.0)
    network = fb.network.ErdosRenyi(p=0.5, ttl=2, contamination=0.1, outliers="cauchy", outlier=10.0)
    steadfast = regrets(getattr(fb.algorithms, robust)(), env, 300, network)
    gullible = regrets(fb.algorithms.FedUCB1(), env, 300, network)
    assert below(np.log(steadfast), np.log(gullible))  # outliers make for wild regret, in logarithms it is tame


def test_a_graph_is_needed():
    with pytest.raises(fb.ConfigError, match="give a network"):
        fb.simulate(fb.algorithms.CentUCB1(), arms(4), 5)


def test_arms_that_change_are_refused():
    env = fb.environments.Linear(clients=4, dim=5, arms=5)
    with pytest.raises(ValueError, match="unit vectors"):
        fb.simulate(fb.algorithms.UCB1(), env, 5)
