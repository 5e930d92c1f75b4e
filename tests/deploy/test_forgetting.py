"""Forgetting takes observations away, and nothing that the federation still needs."""

from __future__ import annotations

import numpy as np
import pytest
from flower_worlds import Deployed

import fedbandits as fb
from fedbandits.deploy import Agent, InputError, UnknownDecisionError
from fedbandits.deploy.flower.conversation.desk import Desk

LINEAR = fb.environments.Linear(clients=3, dim=3, arms=5)
FAR = 4e9
"""A time after everything."""


@pytest.fixture
def federation(tmp_path):
    return Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), LINEAR, 60)


@pytest.mark.parametrize("saved_first", [False, True])
def test_an_answer_that_was_lost_is_given_again_after_forgetting(federation, saved_first):
    """Twelve rounds of three agents, who forget everything whenever an answer was lost: the pool is whole."""
    rng = np.random.default_rng(0)
    federation.coordinator._carrier._limit = None
    lost = []

    def fate(who, letter):
        if rng.random() < 0.3:
            lost.append(who)
            return "unanswered"
        return "delivered"

    federation.post.fate = fate
    answer = federation.post.ask

    def ask(letters, seconds):
        answers = answer(letters, seconds)
        for who in set(lost):
            if saved_first:
                federation.agents[who].close()
                federation.agents[who] = federation.open(who)
                federation.post.desks[who] = Desk(federation.agents[who])
            federation.agents[who].forget(FAR)
        lost.clear()
        return answers

    federation.post.ask = ask
    features = np.zeros((3, 3))
    for step in range(12):
        turn = federation.world.turn(step)
        picks = federation.live(step)
        for arms, pick in zip(turn.arms, picks, strict=True):
            features += np.outer(arms[pick], arms[pick])
        federation.coordinator.step()
    pooled = federation.coordinator.server.state()
    fresh = sum(agent.state()["models.fresh.gram"][0] for agent in federation.agents)
    np.testing.assert_allclose(pooled["pool.gram"][0] + fresh, features, rtol=1e-9)


def test_one_person_is_forgotten_and_others_stay(tmp_path):
    with Agent.open(tmp_path / "agent.db", fb.algorithms.DisLinUCB(), 2, warm=False, durable=False) as agent:
        ours = [agent.decide(np.eye(2), who="ann").id for _ in range(3)]
        theirs = [agent.decide(np.eye(2), who="bob").id for _ in range(2)]
        assert agent.reward(ours[0], 0.5)
        assert agent.reward(theirs[0], 0.5)
        before = agent.state()
        assert agent.forget(who="ann") == 3
        assert agent.forget(who="ann") == agent.forget(who="nobody") == 0
        for name in ours:
            with pytest.raises(UnknownDecisionError):
                agent.reward(name, 0.5)
        assert not agent.reward(theirs[0], 0.5), "is on record"
        assert agent.status().awaiting == 1
        for name, array in agent.state().items():
            np.testing.assert_array_equal(array, before[name])
        assert agent.reward(theirs[1], 0.5)
        assert b"ann" not in agent.path.read_bytes()
        with pytest.raises(InputError, match="needs a time"):
            agent.forget()
