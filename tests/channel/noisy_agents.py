"""Agents whose uploads carry noise, driven by hand: what they observe, what they send, and what noise sees of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.channel import Gaussian, through
from fedbandits.channel.staged import StagedAgents
from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Noise, Norms, Range
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.sharing import COLLECT, POOL

ARM, REWARD = 1.5, 2.0
"""The norms that arms and rewards are declared to have: not 1, so that a forgotten factor shows."""


class Noiseless(Gaussian):
    """The stage as it is, but for the noise, which is 0: what it adds noise to."""

    def noise(self, problem: Problem, fields: Any = None) -> float:
        """None."""
        return 0.0


def problem_of(dim: int = 3, horizon: int = 12, agents: int = 1) -> Problem:
    """A problem whose norms are told."""
    told = Norms(1.0, ARM), Range(-REWARD, REWARD), Noise(0.5)
    return Problem(agents=agents, dim=dim, arms=1, horizon=horizon).knowing(*told)


def agents_of(stage: Gaussian, n: int, seed: int, problem: Problem, identities: Array | None = None) -> StagedAgents:
    """n agents of DisLinUCB through `stage`, and through nothing else."""
    streams = Streams(np.random.SeedSequence(seed), n, identities)
    agents = through(fb.algorithms.DisLinUCB(), [stage]).agents(problem, n, streams)
    assert isinstance(agents, StagedAgents)
    return agents


def numbers(arrays: dict[str, Array]) -> FloatArray:
    """(w, p) the independent numbers of a message, in units of what noise of strength 1 has for each of them."""
    gram, moment = arrays["gram"], arrays["moment"]
    rows, columns = np.tril_indices(gram.shape[1])
    entries = gram[:, rows, columns] / np.where(rows == columns, math.sqrt(2), 1.0) / ARM**2
    return np.concatenate([entries, moment / (ARM * REWARD)], axis=1)


def observe(agents: StagedAgents, x: FloatArray, y: float, person: int = 0) -> None:
    """All agents are shown the one arm `x` (d,), and paid `y`."""
    n = len(agents)
    everybody, shown = np.arange(n), np.tile(x, (n, 1, 1))
    agents.attribute(everybody, np.full(n, person))
    agents.learn(everybody, shown, np.zeros(n, dtype=np.int64), np.full(n, y))


def collect(agents: StagedAgents) -> FloatArray:
    """(n, p) what everybody hands over, as `numbers`."""
    reply = agents.answer(Message(COLLECT.kind, np.arange(len(agents))))
    assert reply is not None
    return numbers(reply.arrays)


def tell(agents: StagedAgents, gram: FloatArray, moment: FloatArray) -> None:
    """A server tells everybody the same pool."""
    n = len(agents)
    agents.answer(
        Message(POOL.kind, np.arange(n), {"gram": np.tile(gram, (n, 1, 1)), "moment": np.tile(moment, (n, 1))})
    )


def uploads(stage: Gaussian, agents: StagedAgents, xs: FloatArray, ys: FloatArray, persons: Array) -> FloatArray:
    """(n, m, p) what agents hand over who observe xs (T, d) and ys (T,) about `persons` (T,), asked when due."""
    said = []
    for x, y, person in zip(xs, ys, persons, strict=True):
        observe(agents, x, float(y), int(person))
        if agents.calling().all():
            said.append(collect(agents))
    return np.stack(said, axis=1)


def seen(stage: Gaussian, problem: Problem, said: FloatArray) -> FloatArray:
    """(n, m, p) C s + z: what the mechanism makes all releases of, from uploads (n, m, p), which are A s + B z told in
    differences. Nothing is lost: B is invertible.
    """
    releases = np.cumsum(said, axis=1)
    noise = stage.sums(stage.poses(problem)).noise
    return np.asarray(np.linalg.solve(noise[None], releases))
