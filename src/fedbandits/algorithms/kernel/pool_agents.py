"""Agents and a server that have all observations of everybody in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.kernel.messages import OBSERVED, POOLED
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.pool_processes import PoolProcesses
from fedbandits.models.process_agents import ProcessAgents
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Trigger

SIZE = "observations"


class PoolAgents(ProcessAgents):
    """Agents that act on everybody's observations, as far as they were told, and on their own.

    They call when their `trigger` fires, hand over what is new when asked, and take in what follows in the pool.
    """

    def __init__(self, models: PoolProcesses, width: WidthRule, trigger: Trigger) -> None:
        super().__init__(models, width)
        self.models: PoolProcesses = models
        self._trigger = trigger

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        return self._trigger.fired(self.models.fresh, self.models.growth)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return self._trigger.urgency(self.models.fresh, self.models.growth)

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what follows in the pool."""
        who = request.who
        if request.kind == COLLECT.kind:
            points, rewards, lengths = self.models.new(who)
            self.models.give(who)
            return Message(OBSERVED.kind, who, {"points": points, "rewards": rewards}, {SIZE: lengths})
        if request.kind == POOLED.kind:
            self.models.extend(who, request.arrays["points"], request.arrays["rewards"], request.lengths[SIZE])
            return None
        return super().answer(request)

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again; see `Population`."""
        if sent.kind != OBSERVED.kind:
            super().restore(sent, observed)
        self.models.take_back(sent.who, sent.lengths[SIZE])


class PoolServer(Server):
    """`points` (m, d) and `rewards` (m,) are all that was ever handed over, in the order in which it came; `told` (n,)
    is how much of it each agent knows.
    """

    keeps: ClassVar[tuple[str, ...]] = ("points", "rewards", "told")
    resizes: ClassVar[frozenset[str]] = frozenset({"points", "rewards"})
    waits: ClassVar[bool] = True

    def __init__(self, n: int, dim: int) -> None:
        self.points = np.zeros((0, dim))
        self.rewards = np.zeros(0)
        self.told = np.zeros(n, dtype=np.int64)

    def converse(self, callers: IntArray) -> Conversation:
        """Collect what is new from everybody, and tell everybody what they do not know."""
        if len(callers) == 0:
            return
        fresh = yield Message(COLLECT.kind, np.arange(len(self.told)))
        if len(fresh.who) == 0:
            return
        held = np.arange(fresh.arrays["rewards"].shape[1]) < fresh.lengths[SIZE][:, None]
        self.points = np.concatenate([self.points, fresh.arrays["points"][held]])
        self.rewards = np.concatenate([self.rewards, fresh.arrays["rewards"][held]])
        reply = yield self._news(np.flatnonzero(self.told < len(self.rewards)))
        self.told[reply.who] = len(self.rewards)

    def _news(self, who: IntArray) -> Message:
        first = self.told[who]
        lengths = len(self.rewards) - first
        if len(who) and (first == first[0]).all():
            news = {"points": self.points[None, first[0] :], "rewards": self.rewards[None, first[0] :]}
            return Message(POOLED.kind, who, shown_to(len(who), news), {SIZE: lengths})
        most = int(lengths.max(initial=0))
        points, rewards = np.zeros((len(who), most, self.points.shape[1])), np.zeros((len(who), most))
        for row, (start, length) in enumerate(zip(first, lengths, strict=True)):
            points[row, :length], rewards[row, :length] = self.points[start:], self.rewards[start:]
        return Message(POOLED.kind, who, {"points": points, "rewards": rewards}, {SIZE: lengths})

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the length of the pool may differ."""
        points, rewards = state[f"{prefix}points"].shape, state[f"{prefix}rewards"].shape
        if points != (rewards[0], self.points.shape[1]):
            raise ValueError(f"the snapshot's {prefix}points has shape {points}, and {prefix}rewards {rewards}")
