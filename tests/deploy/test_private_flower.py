"""Noise in a federation on real Flower: processes of their own, TLS, and kill -9 in the middle."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_worlds import live, settings_of, wait_for

import fedbandits as fb
from fedbandits.channel import Gaussian, Through
from fedbandits.contract.streams import seeds_of
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.machine.launch import Federation

pytestmark = pytest.mark.slow
PATIENCE = Patience(ring=8.0, answer=8.0, everybody=None, repeat=4.0)
ENV = fb.environments.LinearBounded(clients=3, dim=3, arms=5)
HORIZON = 8


@pytest.mark.parametrize("own", ["released", "fused"])
def test_what_was_released_is_in_the_pool_once_whoever_was_killed(own, tmp_path):
    """A node is killed in the middle of a conversation, and the server in that of another. Nobody makes more releases
    than the schedule says, and the pool is the sum of what was released, each of them once.
    """
    algorithm = Through(fb.algorithms.DisLinUCB(), (Gaussian(epsilon=2.0, every=2, own=own),))
    world = ENV.world(HORIZON, seeds_of(0).world)
    with Federation(tmp_path, settings_of(algorithm, world, 0), interval=-1, patience=PATIENCE) as federation:
        agents = [federation.open_agent(identity, durable=False) for identity in range(3)]
        clean = np.zeros((3, 3))
        for step in range(HORIZON):
            turn, picks = world.turn(step), live(agents, world, step)
            for arms, pick in zip(turn.arms, picks, strict=True):
                clean += np.outer(arms[pick], arms[pick])
            granted = federation.book.grant()
            if step == 3:
                wait_for(lambda: federation.book.cut() is not None)
                federation.processes.stop("node-1", kill=True)
                federation.start_node(1)
            if step == 5:
                wait_for(lambda: federation.book.turn(0) is not None)
                federation.kill_server()
                federation.start_server()
                wait_for(lambda: federation.book.cut() is None, 120.0)
                continue
            wait_for(lambda granted=granted: federation.book.fact("taken") >= granted, 120.0)
        for _ in range(6):  # whoever was away is asked again for what it owes, and releases what it has
            federation.floor()
        assert not any(agent.calling() for agent in agents)
        budgets = [agent.status().budget for agent in agents]
        # two scheduled turns that pass while a node is away are one release
        assert all(2 <= budget.releases <= budget.allowed == HORIZON // 2 for budget in budgets)
        assert max(budget.releases for budget in budgets) == HORIZON // 2
        assert max(budget.spent for budget in budgets) == pytest.approx(2.0)
        assert all(np.isinf(budget.strictly) == (own == "fused") for budget in budgets)
        pool = federation.book.parts()["server"]["inner.pool.gram"][0]
        sent = sum(agent.state()["ends.stage0.sent.fresh-gram"][0] for agent in agents)
        np.testing.assert_allclose(pool, sent, rtol=1e-9, atol=1e-9)
        assert np.abs(pool - clean).min() > 1e-3, "with noise on every entry"
        assert federation.book.rejections() == []
        assert all(agent.status().synchronised_at is not None for agent in agents)
        for agent in agents:
            agent.close()
