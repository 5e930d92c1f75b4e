"""Kernelised agents on graphs: who shares what, features beyond a capacity, and trouble on the way."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.graphs.network import Given
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.breach import same
from fedbandits.testing.worlds import two_worlds

SMOOTH = fb.environments.HeterogeneousRBF(clients=6, dim=3, arms=4)
LINEAR = fb.environments.HeterogeneousLinear(clients=6, dim=3, arms=4, clusters=2)
FEW = {"capacity": 12, "features": 10, "contexts": 8}
"""So that processes end early, while K_z is still estimated anew."""


def simulation(algorithm, environment, graph, horizon=25, seed=3, **conditions):
    return Simulation(algorithm, environment, horizon, seed, network=Given.of(graph, **conditions))


@pytest.mark.parametrize("parameters", [{}, FEW, {"likeness": "same"}], ids=["exact", "features", "one function"])
def test_eager_is_filtered_where_everybody_reaches_everybody(parameters):
    """Spec's check: one clique, one process, the same choices to the last bit."""
    runs = [
        simulation(kind(**parameters), SMOOTH, nx.path_graph(6), ttl=5)
        for kind in (fb.algorithms.FedUCBKernel, fb.algorithms.FedUCBEager)
    ]
    for run in runs:
        run.run()
    assert same(runs[0].state(), runs[1].state())


def test_one_process_serves_a_clique_that_is_one_hop_wide():
    graph = nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(2))
    graph.add_edge(3, 4)
    run = simulation(fb.algorithms.FedUCBKernel(), SMOOTH, graph)
    run.run()
    shared = run.agents.processes
    np.testing.assert_array_equal(shared.group, [0, 0, 0, 0, 1, 1])
    assert len(shared.processes) == 2
    np.testing.assert_array_equal(shared.counts, [100, 100, 100, 100, 50, 50])


def test_agents_that_hear_things_at_different_times_go_on_apart():
    run = simulation(fb.algorithms.FedUCBKernel(), SMOOTH, nx.path_graph(6), ttl=2)
    run.run()
    counts = run.agents.processes.counts
    assert len(run.agents.processes.processes) == 6
    np.testing.assert_array_equal(counts, [74, 75, 74, 74, 75, 74])  # who is in the middle hears all at once


TROUBLES = (
    {"ttl": 2},
    {"ttl": 2, "loss": 0.3},
    {"ttl": 2, "delay": 1.5, "delay_max": 4, "tampering": 0.2},
)


@pytest.mark.parametrize(
    ("trouble", "parameters"),
    [
        pytest.param(TROUBLES[0], {}, marks=pytest.mark.slow),
        pytest.param(TROUBLES[0], FEW, marks=pytest.mark.slow),
        (TROUBLES[1], {}),
        pytest.param(TROUBLES[1], FEW, marks=pytest.mark.slow),
        pytest.param(TROUBLES[2], {}, marks=pytest.mark.slow),
        (TROUBLES[2], FEW),
    ],
    ids=lambda given: "-".join(given) or "exact",
)
def test_two_worlds_agree_and_a_resumed_run_goes_on(trouble, parameters):
    """Whatever befalls messages; with agents that are away; where a process is left for features, and K_z revised."""
    environment = fb.environments.HeterogeneousRBF(clients=5, dim=3, arms=4, stragglers=0.4, presence=0.5)
    algorithm, graph = fb.algorithms.FedUCBEager(**parameters), nx.cycle_graph(5)
    for step in two_worlds(algorithm, environment, 18, 3, network=Given.of(graph, **trouble)):
        np.testing.assert_array_equal(step.picks, step.picks_apart)
        np.testing.assert_array_equal(step.together.ledger.counts, step.apart.ledger.counts)
    for joint, alone in zip(step.together.states(), step.apart.states(), strict=True):
        assert same(joint, alone)
    straight, stopped, resumed = (simulation(algorithm, environment, graph, 18, **trouble) for _ in range(3))
    straight.run()
    for steps in (5, 6):
        stopped.run(steps=steps)
        state = stopped.state()
    resumed.load(state)
    resumed.run()
    assert same(straight.state(), resumed.state())
    assert any(process.summed for process in straight.agents.processes.processes) == bool(parameters)


def test_linear_features_are_used_from_the_beginning_and_change_nothing():
    """Decisions are those of the exact process; the sums are over no more numbers than d times the agents heard."""
    runs = [
        simulation(fb.algorithms.FedUCBEager(kernel="linear", features=features), LINEAR, nx.cycle_graph(6), ttl=1)
        for features in (0, 9)
    ]
    for run in runs:
        run.run()
    np.testing.assert_array_equal(runs[0].regret, runs[1].regret)
    assert all(process.summed for process in runs[1].agents.processes.processes)
    assert not any(process.summed for process in runs[0].agents.processes.processes)


def test_naive_cooperation_is_central_linucb_where_all_hear_all():
    run = simulation(fb.algorithms.NaiveLinUCB(width=0.4), LINEAR, nx.complete_graph(6))
    central = Simulation(fb.algorithms.CentralLinUCB(width=0.4), LINEAR, 25, 3)
    run.run()
    central.run()
    np.testing.assert_allclose(run.regret, central.regret, atol=1e-9)


def test_a_full_process_without_features_says_what_to_do():
    run = simulation(fb.algorithms.FedUCBEager(capacity=20, features=0), SMOOTH, nx.complete_graph(6))
    with pytest.raises(fb.ConfigError, match=r"capacity: .* say features=256"):
        run.run()


def test_contexts_are_told_where_likeness_is_estimated_and_nowhere_else():
    said = {
        likeness: {item.name for item in fb.algorithms.FedUCBKernel(likeness=likeness).about.says[0].fields}
        for likeness in ("estimated", "told", "same")
    }
    assert said["estimated"] == {"point", "reward", "context"}
    assert said["told"] == said["same"] == {"point", "reward"}


def test_features_have_to_be_told():
    with pytest.raises(fb.ConfigError, match="likeness=told needs the fact 'agent_features'"):
        simulation(fb.algorithms.FedUCBKernel(likeness="told"), SMOOTH, nx.cycle_graph(6))


def test_on_a_fixed_set_followers_repeat_their_centre():
    """The text's own setting: one set of arms. A follower k hops away does what its centre did k rounds before."""
    environment = fb.environments.LinearFixed(clients=7, dim=3, arms=5)
    algorithm = fb.algorithms.DistUCBKernel(kernel="rbf", width=0.3)
    graph, picks = nx.path_graph(7), []
    for step in two_worlds(algorithm, environment, 20, 1, network=Given.of(graph, ttl=2)):
        picks.append(step.picks)
    agents, picks = step.together.agents, np.array(picks)
    leaders = agents._leaders
    assert 1 < len(set(leaders.tolist())) < 7
    for v in range(7):
        away = abs(v - leaders[v])
        if away:
            np.testing.assert_array_equal(picks[away:, v], picks[: 20 - away, leaders[v]])


def test_company_is_worth_more_the_better_it_is_known_who_is_like_whom():
    """Agents in two clusters, on a complete graph: told, estimated, alone and naively, in that order."""
    environment = fb.environments.HeterogeneousLinear(clients=12, dim=4, arms=6, clusters=2, told=True, shift=0.6)
    regret = {
        name: np.mean(
            [simulation_regret(kind(kernel="linear", width=0.2, **more), environment, seed) for seed in range(3)]
        )
        for name, kind, more in (
            ("told", fb.algorithms.FedUCBEager, {"likeness": "told"}),
            ("estimated", fb.algorithms.FedUCBEager, {"sigma": 0.3}),
            ("naive", fb.algorithms.NaiveLinUCB, {}),
        )
    }
    assert regret["told"] < regret["estimated"] < regret["naive"]


def simulation_regret(algorithm, environment, seed):
    run = simulation(algorithm, environment, nx.complete_graph(12), 60, seed)
    run.run()
    return run.trace().regret[-1]
