"""Thresholds at their limits: talking always is central, talking never is independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AsyncLinUCB, CentralLinUCB, DisLinUCB, FedLinUCBAsync, IndependentLinUCB
from fedbandits.testing.breach import same
from fedbandits.testing.recording import recorded

N, D = 5, 4

ALWAYS = [DisLinUCB(threshold=0), AsyncLinUCB(gamma_up=1, gamma_down=1)]
NEVER = [DisLinUCB(threshold=math.inf), AsyncLinUCB(gamma_up=math.inf), AsyncLinUCB(gamma_up=math.inf, gamma_down=1)]


def environment(schedule):
    return fb.environments.Linear(clients=N, dim=D, arms=6, schedule=schedule)


def knowledge(agents):
    base, fresh = agents.models.base, agents.models.fresh
    return base.gram + fresh.gram, base.moment + fresh.moment, agents.models.theta, agents.models.logdet


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("algorithm", ALWAYS, ids=lambda one: one.about.name)
def test_talking_always_equals_central(algorithm, schedule):
    """After every round every agent knows what the central one knows, hence chooses the same."""
    pair = (recorded(one, environment(schedule), 60, seed=2) for one in (algorithm, CentralLinUCB()))
    for event, central in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, central.picks)
        for mine, theirs in zip(knowledge(event.side.agents), knowledge(central.side.agents), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


def test_fedlinucb_that_always_calls_equals_central_when_all_are_awake():
    pair = (recorded(one, environment("all"), 60, seed=2) for one in (FedLinUCBAsync(growth=0), CentralLinUCB()))
    for event, central in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, central.picks)
        assert same({"theta": event.side.agents.theta}, {"theta": central.side.agents.models.theta})


@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("algorithm", NEVER, ids=lambda one: f"{one.about.name}")
def test_talking_never_equals_independent(algorithm, schedule):
    """To the last bit."""
    pair = (recorded(one, environment(schedule), 60, seed=2) for one in (algorithm, IndependentLinUCB()))
    for event, alone in zip(*pair, strict=True):
        np.testing.assert_array_equal(event.picks, alone.picks)
        assert same(event.side.agents.state(), alone.side.agents.state())
        assert not event.side.ledger.counts.any()


def test_fedlinucb_that_never_calls_never_learns():
    """It acts on downloads alone: without any it keeps its first opinion, the widest arm."""
    for event in recorded(FedLinUCBAsync(growth=math.inf), environment("all"), 30):
        assert not event.side.agents.theta.any()
        assert not event.side.ledger.counts.any()


@pytest.mark.parametrize("name", ["dislinucb", "async-linucb", "central-linucb", "fedlinucb-async"])
def test_one_agent_alone_with_a_server_hears_nothing_new(name):
    """n = 1: the server can only give back what it was given, and regret is that of the independent agent."""
    env = fb.environments.Linear(clients=1, dim=D, arms=6)
    parameters = {"dislinucb": {"threshold": 0.3}, "fedlinucb-async": {"growth": 0}}.get(name, {})
    algorithm = fb.algorithms.ALGORITHMS[name](**parameters)
    np.testing.assert_allclose(fb.simulate(algorithm, env, 80).regret, fb.simulate(IndependentLinUCB(), env, 80).regret)
