"""An agent in a product whose arms may be any points of a box: it names points, and nothing is recorded by that."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, InputError

LOW, HIGH = [0.0] * 3, [1.0] * 3


@pytest.fixture
def agent(tmp_path):
    algorithm = fb.algorithms.KernelUCB(kernel="rbf", lengthscale=0.5, ridge=0.01, nu=0.1)
    with Agent.open(tmp_path / "agent.db", algorithm, dim=3, horizon=100) as opened:
        rng = np.random.default_rng(0)
        for _ in range(20):
            arms = rng.random((5, 3))
            decision = opened.decide(arms)
            opened.reward(decision.id, -float(((arms[decision.index] - 0.3) ** 2).sum()))
        yield opened


def test_what_is_proposed_is_what_the_agent_would_rather_choose(agent):
    arms = np.random.default_rng(1).random((6, 3))
    before = agent.state()
    proposed = agent.propose(arms, LOW, HIGH, count=2)
    assert proposed.shape == (2, 3)
    assert ((proposed >= 0) & (proposed <= 1)).all()
    for name, array in agent.state().items():
        np.testing.assert_array_equal(array, before[name])
    assert agent.status().decisions == 20
    decision = agent.decide(np.concatenate([arms, proposed]))
    assert decision.index >= 6
    assert np.linalg.norm(proposed - 0.3, axis=1).min() < np.linalg.norm(arms - 0.3, axis=1).min()


def test_boxes_that_are_none_are_refused(agent):
    arms = np.random.default_rng(1).random((6, 3))
    for low, high, count, match in (
        (LOW[:2], HIGH, 1, "low must be 3"),
        (LOW, [np.inf] * 3, 1, "high must be 3"),
        (LOW, ["a"] * 3, 1, "high must be 3"),
        (HIGH, LOW, 1, "above"),
        (LOW, HIGH, 7, "count"),
        (LOW, HIGH, 0, "count"),
    ):
        with pytest.raises(InputError, match=match):
            agent.propose(arms, low, high, count)
    with pytest.raises(InputError, match="box"):
        agent.propose(["one", "two"], LOW, HIGH)


def test_those_without_an_index_propose_nothing(tmp_path):
    with Agent.open(tmp_path / "agent.db", fb.algorithms.Random(), dim=3, horizon=10) as agent:
        assert agent.propose([[0.0, 0.0, 0.0]], LOW, HIGH) is None
