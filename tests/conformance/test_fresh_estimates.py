"""No agent acts on a stale estimate after it has heard something; `test_fresh_means` says so of the armed family."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.estimates import acting_on
from conformance.subjects import HORIZON, TALKING, about, home, network_of, problem_of, talkative, widths_of
from conformance.worlds import recorded
from fedbandits.contract.messages import Message


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize(
    ("name", "width"),
    [(name, width) for name in TALKING if about(name).family != "armed" for width in widths_of(name)],
)
def test_the_very_next_choice_rests_on_what_was_heard(name, width, schedule):
    """After every step each agent chooses from probing arms. Its choice has the highest index recomputed from its
    statistics; and where that recomputation changed its mind in this step, so has the agent.
    """
    algorithm = talkative(name, width=width)
    environment = home(name, schedule=schedule)
    problem = problem_of(name, schedule=schedule)
    rng = np.random.default_rng(3)
    everybody = np.arange(problem.agents)
    heard: dict[int, Message] = {}
    before, changed = None, 0
    steps = recorded(algorithm, environment, HORIZON, network=network_of(name))
    for event in steps:
        for direction, message in event.crossed:
            if direction == "down" and message.arrays:
                for row, agent in enumerate(message.who):
                    share = {key: array[row : row + 1] for key, array in message.arrays.items()}
                    heard[int(agent)] = Message(message.kind, everybody[:1], share)
        arms = rng.standard_normal((problem.agents, 40, problem.dim)) / np.sqrt(problem.dim)
        indices = acting_on(event.side.agents, algorithm, problem, heard)
        scores = indices(arms)
        picks = event.side.agents.choose(everybody, arms)
        acting = ~np.isnan(scores).any(axis=1)
        np.testing.assert_allclose(scores[everybody, picks][acting], scores.max(axis=1)[acting], rtol=1e-9)
        if before is not None and (event.crossed or event.side.relay):
            old = before(arms).argmax(axis=1)
            moved = scores[everybody, old] < scores.max(axis=1) - 1e-6
            assert not (picks == old)[moved].any()
            changed += moved.sum()
        before = indices
    assert changed >= 5, "nothing that was heard ever changed a mind: the test shows nothing"
