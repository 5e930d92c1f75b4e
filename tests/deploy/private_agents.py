"""Agents with a budget of privacy, for tests of what leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.channel import Gaussian, Through
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent
from fedbandits.facts import Norms, Range

ALONE = np.zeros(1, dtype=np.int64)
DIM = 3
FACTS = [Range(0, 1), Norms()]
HORIZON = 60
STAGE = {"epsilon": 1.0, "uploads": 5, "first": 3, "last": 0.5}
"""Five releases, after turns between 3 and 30."""


def noisy(**stage: Any) -> Through:
    return Through(fb.algorithms.DisLinUCB(), (Gaussian(**(STAGE | stage)),))


def opened(path: Path, algorithm: Through | None = None, **settings: Any) -> Agent:
    """An agent of two, which is new unless there is one."""
    made = {"dim": DIM, "facts": FACTS, "horizon": HORIZON, "agents": 2} if not path.exists() else {}
    chosen = algorithm if path.exists() else algorithm or noisy()
    return Agent.open(path, chosen, **(made | {"durable": False, "warm": False} | settings))


def play(agent: Agent, times: int, who: str | None = None, seed: int = 0) -> None:
    """So many decisions, each with its reward."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        decision = agent.decide(rng.normal(size=(4, DIM)) / 3, who=who)
        agent.reward(decision.id, float(rng.random()))


def letter(agent: Agent, kind: str = "collect", **arrays: Any) -> bytes:
    named = {name: np.asarray(value)[None] for name, value in arrays.items()}
    return agent.settings.wire.encode(Message(kind, ALONE, named), 0, "down")


def upload(agent: Agent, conversation: str, **told: Any) -> dict[str, np.ndarray]:
    """What the agent answers to the question for what is new."""
    reply = agent.answer(letter(agent), conversation, 0, **told)
    assert reply is not None
    return Wire.decode(reply)[1]


def held(agent: Agent) -> np.ndarray:
    """The clean sums that an agent has not released yet, and those it has."""
    state = agent.state()
    return np.asarray(state["inner.models.fresh.gram"][0] + state["ends.stage0.own.fresh-gram"][0])
