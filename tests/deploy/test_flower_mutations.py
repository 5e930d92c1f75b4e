"""Whatever nodes send, the server does not raise, and what it knows stays a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deployed_algorithms import STAR, home, talkative
from flower_worlds import Deployed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutated_replies import Mutator

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import Quantise, Through
from fedbandits.contract.algorithm import Algorithm

HORIZON = 30


def attacked(where: Path, algorithm: Algorithm, name: str, seed: int, steps: int = 10) -> int:
    """A federation in which everybody's replies are changed, all the time; how many were."""
    deployed = Deployed(where, algorithm, home(name, clients=3), HORIZON)
    deployed.book._db.execute("PRAGMA synchronous = OFF")  # nobody pulls the plug
    mutator = deployed.post.forged = Mutator(seed)
    for step in range(steps):
        deployed.live(step)
        deployed.coordinator.step()
    for part, array in deployed.coordinator.server.state().items():
        assert array.dtype.kind != "f" or not np.isnan(array).any(), part
    deployed.post.forged = lambda who, letter, answer: answer
    for _ in range(3):
        deployed.coordinator.step()
    deployed.book.close()
    for agent in deployed.agents:
        agent.close()
    return mutator.changed


@pytest.mark.parametrize("name", ["async-linucb", "fedglb-ucb-3", "hetofedbandit-e"])
def test_no_reply_makes_the_server_raise(name, tmp_path):
    attacked(tmp_path, talkative(name), name, seed=0)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nor_does_any_other(seed, tmp_path_factory):
    attacked(tmp_path_factory.mktemp("attacked"), talkative("dislinucb"), "dislinucb", seed)


def test_nor_one_that_has_gone_through_a_stage(tmp_path):
    attacked(tmp_path, Through(talkative("dislinucb"), (Quantise(bits=8),)), "dislinucb", seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STAR if not ALGORITHMS[name].about.oracle])
def test_thousands_of_replies(name, tmp_path):
    changed = seed = 0
    while changed < 1000:
        where = tmp_path / str(seed)
        where.mkdir()
        changed += attacked(where, talkative(name), name, seed, steps=HORIZON)
        seed += 1
