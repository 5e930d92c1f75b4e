"""Robust sums in deployment: as in a simulation, and a node that lies within bounds is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flower_worlds import Deployed, Simulated, assert_alike, assert_same

import fedbandits as fb
from fedbandits.channel import Robust, Through
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy.flower.post import Answer

ALONE = np.zeros(1, dtype=np.int64)
ENV = fb.environments.Linear(clients=5, dim=3, arms=5, noise=0.1)
HORIZON = 14


@pytest.mark.parametrize("rule", ["filter", "geometric-median"])
def test_a_federation_with_robust_sums_is_that_of_the_simulation(rule, tmp_path):
    algorithm = Through(fb.algorithms.DisLinUCB(threshold=0.5), (Robust(rule=rule, beyond=1.0),))
    deployed = Deployed(tmp_path, algorithm, ENV, HORIZON)
    simulated = Simulated(deployed)
    assert_alike(deployed, simulated, HORIZON)
    assert deployed.book.rejections() == []
    assert deployed.coordinator.ledger.conversations > 1
    assert_same(deployed.states(), simulated.states())


def test_a_liar_within_bounds_does_not_steer_robust_sums(tmp_path):
    """Node 0 sends the opposite of what it saw: nothing that inspection could reject, and the pool is without it."""
    estimates = {}
    for label, stages in {"plain": (), "robust": (Robust(),)}.items():
        inner = fb.algorithms.DisLinUCB(threshold=0.5)
        where = tmp_path / label
        where.mkdir()
        deployed = Deployed(where, Through(inner, stages) if stages else inner, ENV, HORIZON)

        def lying(who: int, letter: Any, answer: Answer, wire: Wire = deployed.settings.wire) -> Answer:
            if who != 0 or answer.content is None:
                return answer
            kind, held = Wire.decode(answer.content)
            named = {name: value[None] for name, value in held.items()}
            named["moment"] = -named["moment"]
            return Answer(wire.encode(Message(kind, ALONE, named), 0, "up"), letters=answer.letters)

        deployed.post.forged = lying
        for step in range(HORIZON):
            deployed.live(step)
            deployed.coordinator.step()
        assert deployed.book.rejections() == []
        assert deployed.coordinator.ledger.conversations > 1
        server = deployed.coordinator.server
        pool = (server.inner if stages else server).pool
        theta = np.linalg.solve(pool.gram[0] + 1e-6 * np.eye(3), pool.moment[0])
        estimates[label] = np.linalg.norm(theta - deployed.world.parameters()[0])
    assert estimates["robust"] < estimates["plain"] / 2
