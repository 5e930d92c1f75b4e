"""Agents and a server that have a dictionary in common, and sums in terms of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.kernel.dictionary_widths import DictionaryWidth
from fedbandits.algorithms.kernel.messages import DRAW, DRAWN, EMBED, EMBEDDED, FITTED
from fedbandits.contract.arrays import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    check_arms,
    check_feedback,
    check_finite,
    shown_to,
)
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.models.climbing import Climbing
from fedbandits.models.dictionary_models import DictionaryModels, embedded_sums
from fedbandits.models.features.nystrom import NystromFeatures
from fedbandits.models.judging import JudgingAgents
from fedbandits.models.observations import Observations
from fedbandits.models.triggers import Trigger


class DictionaryAgents(JudgingAgents, Climbing):
    """Agents that act on mean + width sqrt(var) of `models`; `data` are all their observations, which stay, and the
    first `inside` (n,) of them are in what they were told last.

    They call when their `trigger` fires, of how many observations they have made since and of the sum of the variances
    that these had, and draw each of their points with probability min(1, `oversampling` var).
    """

    keeps: ClassVar[tuple[str, ...]] = ("models", "data", "inside", "rng")

    def __init__(
        self,
        models: DictionaryModels,
        rng: Streams,
        *,
        horizon: int,
        width: DictionaryWidth,
        oversampling: float,
        trigger: Trigger,
    ) -> None:
        super().__init__(len(models))
        self.models = models
        self.rng = rng
        self.data = Observations(len(models), models.kernel.dim, horizon)
        self.inside = np.zeros(len(models), dtype=np.int64)
        self._width = width
        self._oversampling = oversampling
        self._trigger = trigger

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean, and width sqrt(var); see `JudgingAgents`."""
        check_arms(who, arms, self._n, self.models.kernel.dim)
        check_finite("arms", who, arms)  # what is infinitely far away would have a score
        mean, variance = self.models.judge(who, arms)
        width = self._width(self.models.volume[who], self.models.missed[who])
        return mean, np.asarray(width[:, None] * np.sqrt(variance))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`: kept, and taken into the regression."""
        check_feedback(who, arms, picks, rewards, self._n, self.models.kernel.dim)
        self.models.learn(who, self.data.add(who, arms, picks, rewards), rewards)

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        return self._trigger.fired(self._since(), self.models.drift)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return self._trigger.urgency(self._since(), self.models.drift)

    def _since(self) -> FloatArray:
        return np.asarray((self.data.count - self.inside).astype(np.float64))

    def answer(self, request: Message) -> Message | None:
        """Draw points, tell sums in terms of a dictionary, or take in the result."""
        who, arrays = request.who, request.arrays
        if request.kind == DRAW.kind:
            return self._draw(who)
        if request.kind == EMBED.kind:
            return self._embedded(who, arrays["dictionary"])
        if request.kind != FITTED.kind:
            return super().answer(request)
        self.models.tell(who, arrays["dictionary"], arrays["gram"], arrays["moment"], arrays["count"])
        self.inside[who] = self.data.given[who]
        self._learn_again(who)
        return None

    def _learn_again(self, who: IntArray) -> None:
        """What was observed since they were told."""
        data = self.data
        more = data.count[who] - self.inside[who]
        for number in range(more.max(initial=0)):
            late = who[more > number]
            place = self.inside[late] + number
            self.models.learn(late, data.arms[late, :, place], data.rewards[late, place])

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._learn_again(np.arange(self._n))

    def _draw(self, who: IntArray) -> Message:
        self.data.give(who)
        drawn = []
        for agent in who:  # as many draws as each has observations
            points = self._points(agent)
            chance = self._oversampling * self.models.doubts(int(agent), points)
            drawn.append(points[self.rng.uniform(np.array([agent]), len(points))[0] < chance])
        lengths = np.array([len(points) for points in drawn], dtype=np.int64)
        padded = np.zeros((len(who), int(lengths.max(initial=0)), self.models.kernel.dim))
        for row, points in enumerate(drawn):
            padded[row, : len(points)] = points
        return Message(DRAWN.kind, who, {"points": padded}, {"points": lengths})

    def _embedded(self, who: IntArray, dictionary: FloatArray) -> Message:
        size, once = dictionary.shape[1], dictionary.strides[0] == 0
        gram, moment = np.zeros((len(who), size, size)), np.zeros((len(who), size))
        features = NystromFeatures(self.models.kernel, dictionary[0]) if len(who) else None
        for row, agent in enumerate(who):  # each a product over all its observations
            if not once and row:
                features = NystromFeatures(self.models.kernel, dictionary[row])
            assert features is not None
            rewards = self.data.rewards[agent, : self.data.given[agent]]
            gram[row], moment[row] = embedded_sums(features, self._points(agent), rewards)
        count = self.data.given[who].astype(np.float64)
        return Message(EMBEDDED.kind, who, {"gram": gram, "moment": moment, "count": count})

    def _points(self, agent: int) -> FloatArray:
        """(m, d) what it had observed when the synchronisation began."""
        return np.asarray(self.data.arms[agent, :, : self.data.given[agent]].T)


class DictionaryServer(Server):
    """A synchronisation is of those who answer its first question, over their data; `most` is how many observations
    one ever had.

    It is given up where one of them falls silent, and where they have less than the share `quorum` of `most`: those who
    are there would forget what all others have seen. Then nothing has changed, and the next caller brings it about
    again. A dictionary of more than `capacity` points is an error.
    """

    keeps: ClassVar[tuple[str, ...]] = ("most",)
    waits: ClassVar[bool] = True

    def __init__(self, n: int, *, quorum: float, capacity: int) -> None:
        self._everybody = np.arange(n)
        self._quorum = quorum
        self._capacity = capacity
        self.most = np.zeros(1)

    def converse(self, callers: IntArray) -> Conversation:
        """One synchronisation: points, sums in terms of them, and the result."""
        if len(callers) == 0:
            return
        drawn = yield Message(DRAW.kind, self._everybody)
        if len(drawn.who) == 0:
            return
        points = drawn.arrays["points"]
        held = np.arange(points.shape[1]) < drawn.lengths["points"][:, None]
        dictionary = np.unique(points[held], axis=0)
        if len(dictionary) == 0:
            return
        if len(dictionary) > self._capacity:
            raise ConfigError(
                f"capacity: a dictionary of {len(dictionary)} points is more than {self._capacity}; raise capacity, "
                "lower oversampling, use a longer lengthscale, or dis-kernel-features, whose sums do not grow"
            )
        who = drawn.who
        reply = yield Message(EMBED.kind, who, shown_to(len(who), {"dictionary": dictionary[None]}))
        if len(reply.who) < len(who):
            return
        total = {name: reply.arrays[name].sum(axis=0, keepdims=True) for name in ("gram", "moment", "count")}
        if total["count"][0] < self._quorum * self.most[0]:
            return
        self.most[0] = max(self.most[0], total["count"][0])
        yield Message(FITTED.kind, who, shown_to(len(who), {"dictionary": dictionary[None], **total}))
