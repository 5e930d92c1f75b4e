"""A node whose clock is wrong is told so, and so is its operator and the server's."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_grids import LocalGrid
from flower_worlds import Deployed
from flwr.app import ConfigRecord, Message, RecordDict

import fedbandits as fb
from fedbandits.deploy.flower.book.clocks import offset
from fedbandits.deploy.flower.conversation.desk import Desk, fingerprint
from fedbandits.deploy.flower.conversation.grid import FlowerPost
from fedbandits.deploy.flower.messages import CLOCK, RECORD, clock_told, presenting
from fedbandits.deploy.flower.operating import operate

SECONDS = st.floats(0, 1000)


@given(st.floats(-1e6, 1e6), SECONDS, SECONDS)
def test_what_is_certain_of_an_offset_is_never_more_than_it_is(ahead, there, back):
    """A message takes `there` seconds to a clock that is `ahead`, and its answer takes `back`."""
    certain = offset(1000.0 + there + ahead, 1000.0, 1000.0 + there + back)
    assert abs(certain) <= abs(ahead) + 1e-6
    assert certain * ahead >= 0 or abs(certain) < 1e-6
    assert abs(certain) >= abs(ahead) - (there + back) - 1e-6


class Node:
    """A node whose clock is `ahead`."""

    def __init__(self, agent, ahead):
        self.desk, self.ahead = Desk(agent), ahead

    def __call__(self, message):
        told = clock_told(message)
        if told is not None:
            self.desk.compare_clocks(told)
        reply = presenting(message, self.desk.identity, self.desk.fingerprint, self.desk.ring())
        record = dict(reply.content.config_records[RECORD]) | {CLOCK: time.time() + self.ahead}
        return Message(RecordDict({RECORD: ConfigRecord(record)}), reply_to=message)


@pytest.fixture
def deployed(tmp_path):
    environment = fb.environments.Linear(clients=3, dim=3)
    return Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), environment, 20)


def test_a_wrong_clock_is_logged_on_both_sides_once_and_shown(deployed, caplog):
    nodes = [Node(agent, ahead) for agent, ahead in zip(deployed.agents, (-290.0, 0.0, 4.0), strict=True)]
    grid = LocalGrid({10 + number: node for number, node in enumerate(nodes)})
    post = FlowerPost(grid, deployed.book, 3, fingerprint(deployed.settings))
    with caplog.at_level(logging.WARNING, logger="fedbandits"):
        for _ in range(4):
            assert post.ring(0.01).keys() == {0, 1, 2}
    assert [record.getMessage() for record in caplog.records] == [
        "agent 0: its clock is 290 seconds behind",
        "the clock of this machine is 290 seconds behind, by the server's: set it",
    ]
    assert operate.status(deployed.where)["clock_offset_seconds"] == {"agent 0": pytest.approx(-290, abs=1)}
    offsets = [agent.status().clock_offset_seconds for agent in deployed.agents]
    assert offsets == pytest.approx([-290.0, 0.0, 4.0], abs=1.0)
    nodes[0].ahead = 0.0
    for _ in range(2):
        post.ring(0.01)
    assert operate.status(deployed.where)["clock_offset_seconds"] == {}
    assert deployed.agents[0].status().clock_offset_seconds == 0


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), "noon", b"", 7])
def test_nonsense_is_no_time(nonsense, deployed):
    def answer(message):
        reply = presenting(message, 0, fingerprint(deployed.settings), Desk(deployed.agents[0]).ring())
        record = dict(reply.content.config_records[RECORD]) | {CLOCK: nonsense}
        return Message(RecordDict({RECORD: ConfigRecord(record)}), reply_to=message)

    post = FlowerPost(LocalGrid({1: answer}), deployed.book, 3, fingerprint(deployed.settings))
    assert post.ring(0.01).keys() == {0}
    assert deployed.book.clocks.all() == {}
