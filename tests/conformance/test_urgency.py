"""How close an agent is to calling is told so that it agrees with whether it calls."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import HORIZON, SCHEDULES, STAR, home, talkative
from conformance.worlds import Together
from fedbandits.contract.population import Urgent
from fedbandits.contract.wire import Wire


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", STAR)
def test_an_agent_calls_where_its_urgency_reaches_one(name, schedule):
    world = home(name, schedule=schedule).world(HORIZON, np.random.SeedSequence(0))
    side = Together(talkative(name), world.problem, np.random.SeedSequence(1), Wire())
    assert isinstance(side.agents, Urgent), "its agents have calling(), but no urgency()"
    quiet, called = 0, 0
    for step in range(HORIZON):
        turn = world.turn(step)
        picks = side.choose(turn.who, turn.arms)
        side.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        calling, urgency = side.agents.calling(), side.agents.urgency()
        assert urgency.shape == calling.shape
        assert (urgency >= 0).all()
        assert (urgency[calling] >= 1 - 1e-9).all()
        # whoever has nothing new does not call, however urgent it may be
        assert calling[(urgency > 1 + 1e-9) & np.isin(np.arange(len(calling)), turn.who)].all()
        quiet += (~calling).sum()
        called += calling.sum()
        side.talk(turn, step)
    assert called > 0
    assert quiet > 0 or schedule == "all"
