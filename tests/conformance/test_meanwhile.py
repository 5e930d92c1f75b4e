"""Deployed agents go on observing while their server speaks: what they observe meanwhile counts as observed afterwards.

A simulation never shows this, since nobody acts during its conversations.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from conformance.subjects import HORIZON, STAR, about, home, problem_of, talkative
from conformance.worlds import Recording, Together
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy.flower.expected_answers import hand_overs
from fedbandits.transport.carriers import hold

ROWS = ("who", "arms", "picks", "rewards")
SUBJECTS = [name for name in STAR if name != "hetofedbandit-pq"]
"""That one orders its queue by the levels of the moment at which it asks."""
UNCOMPARED = ("updates", "common.theta", "local.theta")
"""How long ago an inverse was computed anew; and iterates of an alternation, which depend on where it started."""


class Meanwhile(Recording):
    """Lets each agent observe something as soon as it has handed over for the last time."""

    def __init__(self, side: Together, last: Counter[int], observations: dict[str, Any], kinds: frozenset[str]) -> None:
        super().__init__(side.agents, side.ledger, side.wire)
        self._left = Counter(last)
        self._observations = observations
        self._kinds = kinds

    def _deliver(self, request: Message) -> Message | None:
        reply = super()._deliver(request)
        if reply is not None and reply.kind in self._kinds:
            self._left.subtract(reply.who.tolist())
            done = np.array([self._left[int(agent)] == 0 for agent in reply.who])
            observe(self._agents, self._observations, reply.who[done])
        return reply


def observe(agents: Any, observations: dict[str, Any], who: np.ndarray) -> None:
    """Three observations for each of `who`."""
    rows = np.isin(observations["who"], who)
    for turn in range(3):
        arms, picks, rewards = (observations[name][turn][rows] for name in ROWS[1:])
        agents.learn(observations["who"][rows], arms, picks, rewards)


def handed_over(carrier: Recording, kinds: frozenset[str]) -> Counter[int]:
    """How often each agent has handed something over."""
    return Counter(
        int(agent)
        for direction, message in carrier.crossed
        if direction == "up" and message.kind in kinds
        for agent in message.who
    )


def converse(side: Together, carrier: Recording) -> None:
    side.carrier = carrier
    hold(side.server, side.calling(), carrier)


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_is_observed_during_a_conversation_counts_as_observed_after_it(name):
    problem = problem_of(name)
    world = home(name).world(HORIZON, np.random.SeedSequence(0))
    kinds = hand_overs(about(name).says)
    after, during = (Together(talkative(name), problem, np.random.SeedSequence(1), Wire()) for _ in range(2))
    rng = np.random.default_rng(2)
    tried = 0
    for step in range(HORIZON):
        turn = world.turn(step)
        picks = after.choose(turn.who, turn.arms)
        after.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        during.agents.load(after.agents.state())
        during.server.load(after.server.state())
        observations = {
            "who": np.arange(problem.agents),
            "arms": rng.standard_normal((3, problem.agents, 7, problem.dim)) / np.sqrt(problem.dim),
            "picks": rng.integers(7, size=(3, problem.agents)),
            "rewards": rng.integers(2, size=(3, problem.agents)).astype(float),
        }
        recording = Recording(after.agents, after.ledger, after.wire)
        converse(after, recording)
        last = handed_over(recording, kinds)
        if not last:
            continue
        tried += 1
        observe(after.agents, observations, np.array(sorted(last)))
        converse(during, Meanwhile(during, last, observations, kinds))
        compare(during, after)
    assert tried >= 3


def compare(during: Together, after: Together) -> None:
    for name, server in after.server.state().items():
        np.testing.assert_allclose(during.server.state()[name], server, rtol=1e-8, atol=1e-10, err_msg=name)
    for name, agents in after.agents.state().items():
        if not name.endswith(UNCOMPARED):
            np.testing.assert_allclose(during.agents.state()[name], agents, rtol=1e-8, atol=1e-10, err_msg=name)
