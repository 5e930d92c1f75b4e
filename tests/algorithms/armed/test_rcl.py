"""RCL-LF, RCL-SD and delayed MP-UCB."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.graphs import Given
from fedbandits.simulation.loop import Simulation

ENV = fb.environments.GaussianArms(clients=9, arms=3, noise=1.0)
MP_UCB = fb.algorithms.FedUCB1(exploration=2 * 2.1)


def test_index_is_that_of_the_publication():
    """sigma sqrt(2 (xi + 1) log t / n), with sigma of the problem."""
    run = Simulation(fb.algorithms.RCLSD(xi=2.0), ENV, 5, network=nx.cycle_graph(9))
    widths = run.agents.known.widths(np.array([[4, 9, 1]]), np.array([10]))
    np.testing.assert_allclose(widths[0], np.sqrt(6 * np.log(10) / np.array([4, 9, 1])))
    louder = Simulation(fb.algorithms.RCLSD(noise=3.0), ENV, 5, network=nx.cycle_graph(9))
    quiet = Simulation(fb.algorithms.RCLSD(), ENV, 5, network=nx.cycle_graph(9))
    args = (np.array([[5, 5, 5]]), np.array([7]))
    np.testing.assert_allclose(louder.agents.known.widths(*args), 3 * quiet.agents.known.widths(*args))


def test_on_regular_graphs_nothing_is_dropped():
    lossless = fb.simulate(fb.algorithms.RCLLF(), ENV, 100, 1, network=nx.cycle_graph(9))
    np.testing.assert_array_equal(lossless.regret, fb.simulate(MP_UCB, ENV, 100, 1, network=nx.cycle_graph(9)).regret)


def test_the_well_connected_drop_what_the_others_never_had():
    """On a star of nine the centre keeps one message in eight, the leaves keep all."""
    run = Simulation(fb.algorithms.RCLLF(), ENV, 400, 1, network=nx.star_graph(8))
    run.run()
    heard = run.agents.known.counts.sum(axis=1) - 400
    assert (heard[1:] == 400).all()
    assert abs(heard[0] - 400) < 4 * np.sqrt(8 * 400 * 1 / 8 * 7 / 8)


def test_degrees_are_those_within_reach():
    """With two hops on a star everybody has eight neighbours: nothing is dropped."""
    run = Simulation(fb.algorithms.RCLLF(), ENV, 10, 1, network=Given.of(nx.star_graph(8), ttl=2))
    np.testing.assert_array_equal(run.agents.heeds, 1.0)


def test_an_agent_without_neighbours_changes_nothing_for_the_others():
    graph = nx.disjoint_union(nx.star_graph(7), nx.empty_graph(1))
    run = Simulation(fb.algorithms.RCLLF(), ENV, 10, 1, network=graph)
    np.testing.assert_allclose(run.agents.heeds, [1 / 7, *[1] * 8])


def test_rcl_sd_talks_to_direct_neighbours_only():
    far = fb.simulate(fb.algorithms.RCLSD(), ENV, 20, network=Given.of(nx.cycle_graph(9), ttl=4))
    assert far.messages[-1] == 20 * 18


def test_late_messages_count_when_they_arrive():
    """Every message takes 3 extra rounds: after t rounds an agent has those of t - 3 rounds from each neighbour."""
    late = Given.of(nx.cycle_graph(9), delay=3.0, delay_max=3)
    run = Simulation(fb.algorithms.RCLSD(), ENV, 30, network=late)
    for step in range(1, 31):
        run.run(steps=1)
        np.testing.assert_array_equal(run.agents.known.counts.sum(axis=1), step + 2 * max(0, step - 3))


@pytest.mark.parametrize("ttl", [1, 3])
def test_waiting_one_round_is_not_waiting(ttl):
    network = Given.of(nx.cycle_graph(9), ttl=ttl)
    delayed = fb.simulate(fb.algorithms.MPUCBDelayed(wait=1), ENV, 80, 2, network=network)
    np.testing.assert_allclose(delayed.regret, fb.simulate(MP_UCB, ENV, 80, 2, network=network).regret)


@pytest.mark.parametrize("wait", [2, 3, 5])
def test_what_counts_is_old_enough(wait):
    """In round t (0-based) an agent acts on what neighbours said up to round t - max(distance, wait)."""
    run = Simulation(fb.algorithms.MPUCBDelayed(wait=wait), ENV, 40, network=Given.of(nx.cycle_graph(9), ttl=3))
    arms = np.broadcast_to(np.eye(3), (9, 3, 3))
    for step in range(40):
        run.agents.choose(np.arange(9), arms)
        expected = step + sum(2 * max(0, step - max(hops, wait) + 1) for hops in (1, 2, 3))
        np.testing.assert_array_equal(run.agents.known.counts.sum(axis=1), expected)
        run.run(steps=1)
