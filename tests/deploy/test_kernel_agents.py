"""Kernels at a server, deployed: opened, asked, synchronised, killed, opened again, and what is then in whose file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deployed_algorithms import home, talkative
from flower_worlds import Deployed, Simulated, assert_same
from killed_lives import Life, assert_the_same_when_killed

from fedbandits.contract.algorithm import Algorithm
from fedbandits.deploy import CannotForgetError
from fedbandits.deploy.flower.conversation.desk import Desk

NAMES = ["dis-kernel-ucb", "approx-dis-kernel-ucb", "dis-kernel-features"]
PROVED: dict[str, dict[str, Any]] = {
    "dis-kernel-ucb": {},
    "approx-dis-kernel-ucb": {"width": "theory"},
    "dis-kernel-features": {},
}
STEPS = 16


def deployed(where: Any, name: str) -> Deployed:
    algorithm: Algorithm = talkative(name, **PROVED[name])
    return Deployed(where, algorithm, home(name, clients=3), 30)


@pytest.mark.parametrize("name", NAMES)
def test_agents_and_server_that_are_opened_again_are_those_of_the_simulation(name, tmp_path):
    """Without being closed: an agent after the fifth and ninth step, the server after the seventh."""
    federation = deployed(tmp_path, name)
    simulated = Simulated(federation)
    talked = 0
    for step in range(STEPS):
        np.testing.assert_array_equal(federation.live(step), simulated.live(step))
        federation.coordinator.step()
        talked += len(simulated.calling()) > 0
        simulated.converse()
        assert_same(federation.states(), simulated.states())
        if step in (4, 8):
            federation.agents[1] = federation.open(1)
            federation.post.desks[1] = Desk(federation.agents[1])
        if step == 6:
            federation.restart()
    assert talked > 2
    assert federation.book.rejections() == []


@pytest.mark.parametrize("name", NAMES)
def test_killed_again_and_again_an_agent_is_what_it_would_have_been(name, tmp_path):
    """Dictionaries and pools come back as they were, and so do draws of points that nobody heard of."""
    (tmp_path / "whole").mkdir()
    federation = deployed(tmp_path / "whole", name)
    life = Life(federation.agents[0])
    for step in range(STEPS):
        federation.live(step)
        federation.coordinator.step()
    assert sum(what == "answer" for what, *_ in life.done) > 4
    assert_the_same_when_killed(
        tmp_path / "agent.db", federation.settings, life.done, federation.agents[0].state(), times=6
    )


@pytest.mark.parametrize("name", NAMES)
def test_whose_observations_cannot_be_forgotten_loses_nothing_by_being_asked_to(name, tmp_path):
    """What was refused has changed nothing, and what was granted has left what was learned."""
    federation = deployed(tmp_path, name)
    for step in range(8):
        federation.live(step)
        federation.coordinator.step()
    before = federation.agents[0].state()
    if federation.settings.algorithm.about.wire.count("raw"):
        with pytest.raises(CannotForgetError, match="none was removed; it also sends them as they are, so that others"):
            federation.agents[0].forget(4e9)
        assert len([one for one in federation.agents[0].log() if one.reward is not None]) == 8
    else:
        assert federation.agents[0].forget(4e9) == 8
    for agent in (federation.agents[0], federation.open(0)):
        after = agent.state()
        for part, array in before.items():
            np.testing.assert_array_equal(after[part], array, err_msg=part)
    for step in range(8, 12):
        federation.live(step)
        federation.coordinator.step()
