"""Agents with two phases: at first they try arms at random, until all of them know a model; then they act on it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.nonlinear.candidate_agents import CandidateAgents
from fedbandits.algorithms.nonlinear.linearised_agents import LinearisedAgents
from fedbandits.algorithms.nonlinear.messages import ASK_SLOPE, BEGIN, START
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Choices, Ellipsoids, Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.room import Room
from fedbandits.contract.streams import Streams
from fedbandits.models.differentiable import Model
from fedbandits.models.observations import Observations


class TwoPhaseAgents(Population):
    """`data` is what was observed in phase I, `seen` (n,) how much that was, `started` (n,) says who is beyond it, and
    `second` are the agents of phase II.

    An agent calls when it has made its number of observations, `quotas` being those of all agents of the problem, goes
    on trying at random while nobody answers, and begins phase II when it is told w_0. What it observed before is then
    taken in if it is to be kept (`keep`). Where observations are `tallied`, phase II counts from the first one on, and
    no gradient is ever asked for.
    """

    keeps: ClassVar[tuple[str, ...]] = ("rng", "data", "seen", "started", "second")

    def __init__(
        self,
        model: Model,
        problem: Problem,
        quotas: IntArray,
        rng: Streams,
        second: LinearisedAgents | CandidateAgents,
        beginning: FloatArray,
        *,
        keep: bool,
        tallied: bool = False,
    ) -> None:
        super().__init__(len(second))
        self.rng = rng
        self.second = second
        self.data = Observations(len(second), problem.dim, 1 if tallied else problem.horizon)
        self.seen = np.zeros(len(second), dtype=np.int64)
        self.started = np.zeros(len(second), dtype=np.bool_)
        self._model = model
        self._dim = problem.dim
        self._quota = quotas[rng.identities]
        self._beginning = beginning
        self._keep = keep
        self._tallied = tallied

    def preparing(self) -> BoolArray | None:
        """Who is in phase I; see `Population`."""
        return ~self.started

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """A random arm in phase I, the optimistic one in phase II."""
        return self.choose_and_tell(who, arms).picks

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """See `Population`."""
        check_arms(who, arms, self._n, self._dim)
        late = self.started[who]
        if late.all():
            return self.second.choose_and_tell(who, arms)
        scores, chances = self.scores(who, arms), self.chances(who, arms)
        picks = np.empty(len(who), dtype=np.int64)
        picks[late] = 0 if scores is None else scores[late].argmax(axis=1)
        picks[~late] = (self.rng.uniform(who[~late]) * arms.shape[1]).astype(np.int64)
        return Choices(picks, scores, chances)

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm in phase II; see `Population`."""
        check_arms(who, arms, self._n, self._dim)
        late = self.started[who]
        check_finite("arms", who, arms)
        if not late.any():
            return None
        found = np.full(arms.shape[:2], np.nan)
        found[late] = self.second.scores(who[late], arms[late])
        check_finite("scores of the arms", who[late], found[late])
        return found

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The same for every arm in phase I; see `Population`."""
        check_arms(who, arms, self._n, self._dim)
        late = self.started[who]
        if late.all():
            return None
        found = np.full(arms.shape[:2], 1.0 / arms.shape[1])
        if late.any():
            scores = self.second.scores(who[late], arms[late])
            assert scores is not None
            found[late] = np.arange(arms.shape[1]) == scores.argmax(axis=1)[:, None]
        return found

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """Nothing in phase I, where arms are tried at random; points of a higher index in phase II."""
        check_arms(who, arms, self._n, self._dim)
        late = self.started[who]
        found = self.second.propose(who[late], arms[late], room) if late.any() else None
        if found is None or late.all():
            return found
        both = arms[:, -room.slots :].copy()
        both[late] = found
        return both

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        early = ~self.started[who]
        later = ~early | self._tallied
        if later.all():
            self.second.learn(who, arms, picks, rewards)
        elif later.any():
            self.second.learn(who[later], arms[later], picks[later], rewards[later])
        if not self._tallied and early.any():
            self.data.add(who[early], arms[early], picks[early], rewards[early])
        self.seen[who[early]] += 1

    def calling(self) -> BoolArray:
        """Who has made its observations in phase I, and whose trigger has fired in phase II."""
        return np.where(self.started, self.second.calling(), self.seen >= self._quota)

    def urgency(self) -> FloatArray | None:
        """How far each agent has come; see `Population`."""
        later = self.second.urgency()
        sooner = self.seen / np.maximum(self._quota, 1)
        return np.where(self.started, 0.0 if later is None else later, sooner)

    def ellipsoids(self) -> Ellipsoids | None:
        """None: what agents believe of w is about a model, which nobody is sure of."""
        return None

    def answer(self, request: Message) -> Message | None:
        """A sum of gradients in phase I, the beginning of phase II, and what is said there."""
        who, arrays = request.who, request.arrays
        if request.kind in (BEGIN.kind, ASK_SLOPE.kind) and not self._tallied:
            w = np.ascontiguousarray(arrays["w"]) if "w" in arrays else self._beginning[None]
            end = np.minimum(self.seen[who], self._quota[who])
            return Message(ASK_SLOPE.kind, who, {"gradient": self._model.slopes(w, self.data, who, end)})
        if request.kind == START.kind:
            self.begin(who, arrays["w"])
            return None
        return self.second.answer(request)

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over in phase II is new again; see `Population`."""
        self.second.restore(sent, observed)

    def begin(self, who: IntArray, w: FloatArray) -> None:
        """Phase II begins for `who`, at their rows of `w` (w, p)."""
        new = ~self.started[who]
        self.second.begin(who[new], w[new])
        self.started[who] = True
        if not self._keep or self._tallied:
            return
        for number in range(self.data.count[who[new]].max(initial=0)):
            some = who[new][self.data.count[who[new]] > number]
            x, rewards = self.data.arms[some, :, number], self.data.rewards[some, number]
            self.second.learn(some, np.ascontiguousarray(x[:, None]), np.zeros(len(some), dtype=np.int64), rewards)
