"""A sample algorithm whose agents say two kinds of things on a graph, one of them without having just learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Ragged, Utterance, WireField

TOLD = Utterance("told", "peer", (WireField("arm", dtype="i8"), WireField("reward", raw=True)))
DIARY = Utterance("diary", "peer", (WireField("from", (Ragged("m"),), dtype="i8"), WireField("sums", (Ragged("m"), 2))))
"""Of whom an agent has heard since its last such message, and what they told, in sums of arms and rewards."""


@parameters
class Rumours:
    """Agents tell what they got; whoever has heard of three or more others writes to its neighbours of whom, awake or
    not. All that is heard counts for what an agent thinks of arms."""

    about: ClassVar[About] = About(
        name="sample-rumours",
        family="armed",
        topology="graph",
        talks="after every pull, and once enough was heard",
        says=(TOLD, DIARY),
        guarantee="none",
        source="test",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> RumourAgents:
        return RumourAgents(problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        return None


class RumourAgents(ArmedAgents):
    """`sums` (n, K) of all that was seen or heard, the last pull, and for every agent of the problem what was heard of
    it and not yet written on: `heard` (n, M, 2), `times` (n, M)."""

    keeps: ClassVar[tuple[str, ...]] = ("turns", "sums", "arm", "reward", "heard", "times", "read")

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.sums = np.zeros((n, problem.arms))
        self.arm, self.reward = np.zeros(n, dtype=np.int64), np.zeros(n)
        self.heard = np.zeros((n, problem.agents, 2))
        self.times = np.zeros((n, problem.agents), dtype=np.int64)
        self.read = np.zeros((n, 2))
        """(n, 2) sums of all that was read in diaries, weighed by when it was written and by whom."""

    def _pick(self, who: IntArray) -> IntArray:
        tastes = self.sums[who] + np.sin(self.read[who].sum(axis=1))[:, None] * np.arange(self._arms)
        return np.where(self.turns[who] < self._arms, self.turns[who], tastes.argmax(axis=1))

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.sums[who, picks] += rewards
        self.arm[who], self.reward[who] = picks, rewards

    def say(self, learned: IntArray) -> Sequence[Message]:
        told = Message("told", learned, {"arm": self.arm[learned], "reward": self.reward[learned]})
        writers = np.flatnonzero((self.times > 0).sum(axis=1) >= 3)
        lengths = (self.times[writers] > 0).sum(axis=1)
        of = np.zeros((len(writers), lengths.max(initial=0)), dtype=np.int64)
        sums = np.zeros((*of.shape, 2))
        for row, (writer, length) in enumerate(zip(writers, lengths, strict=True)):
            of[row, :length] = np.flatnonzero(self.times[writer])
            sums[row, :length] = self.heard[writer, of[row, :length]]
        self.heard[writers], self.times[writers] = 0.0, 0
        # in another order than declared
        return [Message("diary", writers, {"from": of, "sums": sums}, {"m": lengths}), told]

    def hear(self, inbox: Inbox) -> None:
        said = inbox.said
        for to, row in zip(inbox.to, inbox.row, strict=True):
            if said.kind == "told":
                arm, reward = said.arrays["arm"][row], said.arrays["reward"][row]
                self.sums[to, arm] += reward
                self.heard[to, said.who[row]] += arm, reward
                self.times[to, said.who[row]] += 1
            else:
                length = said.lengths["m"][row]
                weight = 1.0 + said.arrays["from"][row, :length].sum() + 0.1 * inbox.born[row]
                for entry in range(length):
                    self.read[to] += said.arrays["sums"][row, entry] / (weight + said.who[row])
