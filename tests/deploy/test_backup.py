"""Copies of files that are in use."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.deploy import Agent, StorageError, back_up


@pytest.fixture
def agent(tmp_path: Path):
    with Agent.open(
        tmp_path / "agent.db", algorithm=fb.algorithms.DisLinUCB(), dim=2, warm=False, durable=False
    ) as agent:
        yield agent


def test_a_copy_holds_what_was_acknowledged_before_it_was_made(agent, tmp_path):
    """While another thread goes on writing; every copy is one that the agent could have been at that moment."""
    written, done = [0], threading.Event()

    def write() -> None:
        rng = np.random.default_rng(0)
        while not done.is_set():
            agent.reward(agent.decide(rng.standard_normal((3, 2))).id, 1.0)
            written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = written[0]
            back_up(agent.path, tmp_path / f"{number}.db")
            after = written[0]
            with Agent.open(tmp_path / f"{number}.db", warm=False) as copy:
                assert before <= copy.status().rewards <= after + 1
    finally:
        done.set()
        writer.join()
    assert {path.suffix for path in tmp_path.iterdir() if path.stem != "agent"} == {".db"}, "one file to a copy"


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(agent, tmp_path):
    (tmp_path / "there.db").write_text("precious")
    with pytest.raises(StorageError, match=r"there\.db: exists, and is not overwritten"):
        back_up(agent.path, tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text() == "precious"
    with pytest.raises(StorageError, match=r"missing\.db: there is no such file"):
        back_up(tmp_path / "missing.db", tmp_path / "copy.db")
    with pytest.raises(StorageError, match=r"there\.db: it is damaged, or no database at all"):
        back_up(tmp_path / "there.db", tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
