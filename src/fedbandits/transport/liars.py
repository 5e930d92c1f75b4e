"""Populations of which some lie: what `Attack` says, done at the liars' end of the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedbandits.channel import Robust, Through
from fedbandits.channel.composition import laid_open
from fedbandits.channel.robust import pair_of
from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Link, Norms, Range
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance
from fedbandits.contract.wrapping import Wrapping
from fedbandits.linalg.links import MeanFunction, means
from fedbandits.transport.attack import Attack
from fedbandits.transport.imitation import Imitation

Rewards = Callable[[IntArray, FloatArray, FloatArray], FloatArray]
"""Liars (w,), the arms that they chose (w, d) and their rewards (w,) -> what they learn from, (w,)."""


def attacked(algorithm: Algorithm, attack: Attack, mishaps: np.random.SeedSequence) -> Algorithm:
    """`algorithm`, of whose agents some lie; stages, if it goes through any, stay between liars and server."""
    if algorithm.about.topology == "graph":
        raise ConfigError(
            f"attack: {algorithm.about.name} talks on a graph, where byzantine agents are a part of the network: set "
            "its byzantine and contamination instead"
        )
    inner, stages = laid_open(algorithm)
    known = [stage for stage in stages if isinstance(stage, Robust)]
    lying = _Attacked(inner, attack, mishaps, (*known, Robust())[0])
    return Through(lying, stages) if stages else lying


@dataclass(frozen=True)
class _Attacked:
    """`algorithm`, whose population has liars in it, who know of the stage `robust`."""

    algorithm: Algorithm
    attack: Attack
    mishaps: np.random.SeedSequence
    robust: Robust

    def __post_init__(self) -> None:
        judged = [pair_of(said) is not None for said in self._sent]
        if self.attack.how == "adaptive" and not all(judged):
            raise ConfigError(
                f"attack: an adaptive one imitates sums, and {self.about.name} sends others than those of a linear "
                "regression; choose flip, shift, inflate or collude"
            )

    @property
    def about(self) -> About:
        return self.algorithm.about

    @property
    def _sent(self) -> list[Utterance]:
        return [said for said in self.about.says if said.direction == "up"]

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        inner = self.algorithm.agents(problem, n, rng)
        liars = self.attack.liars(n, self.mishaps)
        key = (*self.mishaps.spawn_key, 1)
        draws = np.random.default_rng(np.random.SeedSequence(self.mishaps.entropy, spawn_key=key))
        if self.attack.how == "adaptive":
            return Imitation(inner, self.attack, liars, self._sent, self.robust, sizes_of(self, problem), draws)
        rewards = _fabricated(self.attack, problem, n, draws)
        return LyingAgents(inner, self.attack, liars, self._sent, rewards)

    def server(self, problem: Problem, n: int, rng: Streams) -> Server | None:
        return self.algorithm.server(problem, n, rng)

    def sizes(self, problem: Problem) -> dict[str, int]:
        return sizes_of(self.algorithm, problem)


class LyingAgents(Wrapping):
    """`inner` agents of whom the `liars` (n,) learn from made up `rewards`, and claim more data than they have.

    `told` (n,) counts the lies that each of them has handed over.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inner", "told")

    def __init__(
        self, inner: Population, attack: Attack, liars: BoolArray, sent: list[Utterance], rewards: Rewards
    ) -> None:
        super().__init__(inner)
        self._attack = attack
        self._liars = liars
        self._rewards = rewards
        self._added = {
            said.kind: [item.name for item in said.fields if item.adds is not None and item.dtype == "f8"]
            for said in sent
        }
        handing = {said.kind for said in sent if said.hands_over}
        self._handing = handing or set(self._added)
        self.told = np.zeros(len(inner), dtype=np.int64)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`, of which liars make up the reward."""
        lying = np.flatnonzero(self._lying(who))
        if len(lying):
            rewards = np.array(rewards)
            rewards[lying] = self._rewards(who[lying], arms[lying, picks[lying]], rewards[lying])
        self.inner.learn(who, arms, picks, rewards)

    def answer(self, request: Message) -> Message | None:
        """What the inner agents answer; sums of liars are those of as many times the data as they claim to have."""
        reply = self.inner.answer(request)
        if reply is None or not reply.arrays:
            return reply
        lying = self._lying(reply.who)
        arrays: dict[str, Array] = dict(reply.arrays)
        if self._attack.claims != 1 and lying.any():
            for name in self._added[reply.kind]:
                if name in arrays:
                    arrays[name] = np.array(arrays[name])
                    arrays[name][lying] *= self._attack.claims
        if reply.kind in self._handing:
            self.told[reply.who[lying]] += 1
        return replace(reply, arrays=arrays)

    def _lying(self, who: IntArray) -> BoolArray:
        """(w,) who of `who` does not tell the truth now."""
        most = np.inf if self._attack.lies is None else self._attack.lies
        return np.asarray(self._liars[who] & (self.told[who] < most))


def _fabricated(attack: Attack, problem: Problem, n: int, draws: np.random.Generator) -> Rewards:
    """What liars learn from, by the kind of attack."""
    size, known = attack.size, problem.get(Range)
    low, high = (-np.inf, np.inf) if known is None else (known.low, known.high)
    middle = 0.0 if known is None else (low + high) / 2
    directions = draws.standard_normal((n + 1, problem.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    link = MeanFunction(problem.get(Link, Link()).function, 1.0)
    agreed = directions[n] * problem.get(Norms, Norms()).parameter

    def flipped(who: IntArray, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.clip(middle - (size if attack.how == "flip" else 1.0) * (y - middle), low, high))

    def shifted(who: IntArray, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.clip(y + size * np.einsum("wd,wd->w", directions[who], x), low, high))

    def agreed_upon(who: IntArray, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.clip(means(link.code, x @ agreed), low, high))

    return {"flip": flipped, "inflate": flipped, "shift": shifted, "collude": agreed_upon}[attack.how]
