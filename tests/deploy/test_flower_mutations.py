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

from fedbandits.channel import Quantise, Through
from fedbandits.contract.algorithm import Algorithm

HORIZON = 30


def attacked(where: Path, algorithm: Algorithm, name: str, seed: int, replies: int) -> None:
    """A federation in which everybody's replies are changed, all the time."""
    deployed = Deployed(where, algorithm, home(name, clients=3), HORIZON)
    deployed.book._db.execute("PRAGMA synchronous = OFF")  # nobody pulls the plug
    mutator = deployed.post.forged = Mutator(seed)
    step = 0
    while mutator.changed < replies and step < 100 * replies:
        deployed.live(step % HORIZON)
        deployed.coordinator.step()
        step += 1
    for part, array in deployed.coordinator.server.state().items():
        assert array.dtype.kind != "f" or not np.isnan(array).any(), part
    deployed.post.forged = lambda who, letter, answer: answer
    for _ in range(3):
        deployed.coordinator.step()
    deployed.book.close()


@pytest.mark.parametrize("name", ["async-linucb", "fedglb-ucb-3", "hetofedbandit-e"])
def test_no_reply_makes_the_server_raise(name, tmp_path):
    attacked(tmp_path, talkative(name), name, seed=0, replies=30)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nor_does_any_other(seed, tmp_path_factory):
    attacked(tmp_path_factory.mktemp("attacked"), talkative("dislinucb"), "dislinucb", seed, replies=20)


def test_nor_one_that_has_gone_through_a_stage(tmp_path):
    attacked(tmp_path, Through(talkative("dislinucb"), (Quantise(bits=8),)), "dislinucb", seed=1, replies=30)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAR)
def test_thousands_of_replies(name, tmp_path):
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        attacked(tmp_path / str(seed), talkative(name), name, seed, replies=400)
