"""A federation of networks on real Flower: processes of their own, TLS, and kill -9 in the middle of training."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from deployed_algorithms import home
from flower_worlds import wait_for
from test_flower_federation import Run

import fedbandits as fb
from fedbandits.deploy import Agent

pytestmark = pytest.mark.slow
ALGORITHM = fb.algorithms.NeuralLinear(width=6, steps=4)


def test_networks_are_trained_as_in_the_simulation_whoever_is_killed(tmp_path):
    """The server is killed in the middle of training and goes on where it was; agents then know what those of the
    simulation know, to the last letter.
    """
    with Run(tmp_path, ALGORITHM, home("neural-linear", clients=3), 6) as run:
        for step in range(6):
            run.live(step)
            granted = run.federation.book.grant()
            if step == 3:
                wait_for(lambda: run.federation.book.turn(2) is not None)
                run.federation.kill_server()
                run.federation.start_server()
                wait_for(lambda: run.federation.book.cut() is None, 120.0)
            else:
                wait_for(lambda granted=granted: run.federation.book.fact("taken") >= granted, 120.0)
            run.simulated.converse()
            run.assert_equal()
        assert run.talks > 2
        assert run.federation.book.rejections() == []
        assert all(agent.status().letters > 12 for agent in run.agents)


def test_a_node_killed_while_everybody_trains_is_left_out_and_comes_back(tmp_path):
    with Run(tmp_path, ALGORITHM, home("neural-linear", clients=3), 8) as run:
        for step in range(3):
            run.step(step)
        run.live(3)
        granted = run.federation.book.grant()
        wait_for(lambda: run.federation.book.turn(1) is not None)
        run.federation.processes.stop("node-1", kill=True)
        wait_for(lambda: run.federation.book.fact("taken") >= granted, 120.0)
        run.federation.start_node(1)
        run.federation.floor()
        # those who are left go on, unless the node is back already
        assert pooled(run.agents[0]) == pooled(run.agents[2])
        assert pooled(run.agents[0]) in (8, 12)

        def everybody_is_back() -> bool:
            run.federation.floor()
            return {pooled(agent) for agent in run.agents} == {12}

        wait_for(everybody_is_back, 120.0)
        assert run.federation.book.rejections() == []


def pooled(agent: Agent) -> int:
    """How many of everybody's observations an agent's network was last trained on."""
    return int(agent.state()["pooled"][0])
