"""Choices, triggers, estimates and transfers at every step, against naive versions of the printed algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from linear_reference import Async, Central, Dis, Fed, Reference

import fedbandits as fb
from fedbandits.testing.recording import recorded

PAIRS = {
    "independent-linucb": (fb.algorithms.IndependentLinUCB, Reference, {}, {}),
    "central-linucb": (fb.algorithms.CentralLinUCB, Central, {}, {}),
    "dislinucb": (fb.algorithms.DisLinUCB, Dis, {"threshold": 0.8}, {"D": 0.8}),
    "async-linucb": (
        fb.algorithms.AsyncLinUCB,
        Async,
        {"gamma_up": 1.25, "gamma_down": 1.6},
        {"gamma_up": 1.25, "gamma_down": 1.6},
    ),
    "fedlinucb-async": (fb.algorithms.FedLinUCBAsync, Fed, {"growth": 0.15}, {"a": 0.15}),
}


@pytest.mark.parametrize("width", ["theory", "loose", 0.2])
@pytest.mark.parametrize("schedule", ["all", "round-robin", "random"])
@pytest.mark.parametrize("name", PAIRS)
def test_every_step(name, schedule, width):
    kind, reference_kind, parameters, printed = PAIRS[name]
    env = fb.environments.Linear(clients=5, dim=4, arms=6, noise=0.2, schedule=schedule)
    algorithm = kind(width=width, ridge=0.5, delta=0.05, **parameters)
    reference = reference_kind(n=5, d=4, noise=0.2, width=width, ridge=0.5, delta=0.05, **printed)
    talked = 0
    for event in recorded(algorithm, env, 40 if schedule == "all" else 100, seed=8):
        for row, i in enumerate(event.who):
            scores = reference.indices(i, event.arms[row])
            assert scores[event.picks[row]] >= scores.max() - 1e-9
        for row, i in enumerate(event.who):
            reference.learn(i, event.arms[row, event.picks[row]], event.rewards[row])
        callers = reference.talk()
        np.testing.assert_array_equal(event.callers, callers)
        talked += len(callers)
        ledger = event.side.ledger
        assert (ledger.up.messages, ledger.down.messages) == (reference.ups, reference.downs)
        agents = event.side.agents
        theta = agents.theta if name == "fedlinucb-async" else agents.models.theta
        np.testing.assert_allclose(theta, [reference.theta(i) for i in range(5)], atol=1e-9)
    assert (talked > 3) == (name != "independent-linucb")
