"""Agents that act on a common plan, which they solve together, stage by stage, from sums alone."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.planning.rare_messages import ASK, COLLECT, GRAMS, POOL, SUMS, TARGETS, stage_of
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import WireError
from fedbandits.linalg import kernels, value_iteration
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.episodic import SPOKEN_FOR, EpisodicAgents, Walkers, farthest_one, walk_on
from fedbandits.models.features import Features
from fedbandits.models.stage_models import StageModels
from fedbandits.models.transitions import Transitions
from fedbandits.models.triggers import Trigger, Watch, fires, watch_of


class Followers(NamedTuple):
    """`RareAgents` for compiled loops."""

    walkers: Walkers
    theta: FloatArray
    inverse: FloatArray
    """The plan."""
    since: FloatArray
    turns: FloatArray
    beta: float
    watch: Watch
    every: float
    """Turns after which an agent calls; 0 where the trigger is watched."""


@stands_for(choose, Followers)
@jit_inside
def _choose(agents: Followers, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    walkers = agents.walkers
    at = i * walkers.trail_view.shape[1] + walkers.stage[i]
    return kernels.pick_one(agents.inverse, agents.theta, at, agents.beta, arms, row, room)


@stands_for(learn, Followers)
@jit_inside
def _learn(agents: Followers, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    done, due = walk_on(agents.walkers, i, arms, row, pick, reward, room)
    if done:
        agents.since[i, 0] += 1.0
    agents.turns[i, 0] += 1.0
    return due


@stands_for(calls, Followers)
@jit_inside
def _calls(agents: Followers, i: int) -> bool:
    if agents.every > 0.0:
        return bool(agents.turns[i, 0] >= agents.every)
    return fires(agents.watch, agents.since[i, 0], farthest_one(agents.walkers, i))


class RareAgents(EpisodicAgents):
    """Agents that go by what was synchronised, and by nothing else, until the next time.

    `plan` are the regressions they act on, L_h and w_h of every stage. `models` watch how much they have done since:
    its base is what was pooled. `since` (n, 2) counts finished episodes since an agent last handed over, and before
    that, and `turns` (n, 2) its turns. An agent calls when `trigger` fires, by episodes and the growth of the stage
    that has grown most, or, with a schedule, after so many of its turns (`every`).
    """

    keeps: ClassVar[tuple[str, ...]] = (*EpisodicAgents.keeps, "plan", "since", "turns")

    def __init__(
        self,
        features: Features,
        own: Transitions,
        models: StageModels,
        plan: StageModels,
        beta: float,
        limits: FloatArray,
        trigger: Trigger,
        every: int | None = None,
    ) -> None:
        super().__init__(features, own, models, beta)
        self.plan = plan
        self.since = np.zeros((len(self), 2))
        self.turns = np.zeros((len(self), 2))
        self._limits = limits
        self._trigger = trigger
        self._every = every

    def compiled(self) -> Any:
        """See `Population`: on the arms as they are, with a trigger that compiled loops know."""
        watch = watch_of(self._trigger)
        walkers = self.walkers() if watch is not None and untouched(self, RareAgents, *SPOKEN_FOR) else None
        if walkers is None or watch is None:
            return None
        plan, counts = (self.plan.theta, self.plan.inverse), (self.since, self.turns)
        return Followers(walkers, *plan, *counts, self.beta, watch, float(self._every or 0))

    def regressions(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """See `EpisodicAgents`: what was solved together."""
        return self.plan.theta, self.plan.inverse

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """See `EpisodicAgents`."""
        super().learn(who, arms, picks, rewards)
        self.turns[who, 0] += 1

    def closed(self, who: IntArray) -> None:
        """One more episode."""
        self.since[who, 0] += 1

    # with a server

    def calling(self) -> BoolArray:
        """Whose trigger has fired, or whose time has come."""
        if self._every is not None:
            return np.asarray(self.turns[:, 0] >= self._every)
        return self._trigger.fired(self.since[:, 0], self.models.farthest())

    def urgency(self) -> FloatArray | None:
        """How far each agent has come; see `Population`."""
        if self._every is not None:
            return np.asarray(self.turns[:, 0] / self._every)
        return self._trigger.urgency(self.since[:, 0], self.models.farthest())

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, say what targets are now, or take in what everybody's come to."""
        who, arrays = request.who, request.arrays
        if request.kind == COLLECT.kind:
            return Message(GRAMS.kind, who, {"gram": self._handed_over(who)})
        if request.kind == ASK.kind:
            return Message(TARGETS.kind, who, {"moment": self.targets(who, stage_of(request, self.length))})
        if request.kind == POOL.kind:
            self._pool(who, arrays["gram"])
        elif request.kind == SUMS.kind:
            rows = self.models.rows(who, stage_of(request, self.length))
            self.plan.replace(rows, self.models.base.gram[rows], arrays["moment"], np.zeros(len(who)), alone=True)
        else:
            raise WireError(f"{type(self).__name__} do not understand {request.kind!r}")
        return None

    def targets(self, who: IntArray, stage: int) -> FloatArray:
        """(w, d) sum phi (r + V_{stage+1}(x')) over all that each of `who` has done, by the plan there is."""
        plan, own = self.plan, self.own
        return value_iteration.target_sums(
            own.views.table, own.table, who, stage, self.length, plan.theta, plan.inverse, self.beta, self._limits
        )

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again; see `Population`."""
        if sent.kind != GRAMS.kind:
            super().restore(sent, observed)
        who, d = sent.who, self.models.dim
        gram = sent.arrays["gram"].reshape(-1, d, d)
        count = (np.trace(gram, axis1=1, axis2=2) > 0).astype(np.float64)
        self.models.unsettle(self.models.rows(who), gram, np.zeros((len(gram), d)), count)
        some = who[observed > 0]
        for held in (self.since, self.turns):
            held[some, 0] += held[some, 1]
            held[some, 1] = 0.0

    def _handed_over(self, who: IntArray) -> FloatArray:
        """(w, H, d, d) what is new, which counts as handed over from now on."""
        rows, d = self.models.rows(who), self.models.dim
        gram = self.models.fresh.gram[rows].reshape(len(who), self.length, d, d)
        self.models.settle(rows)
        some = who[self.turns[who, 0] > 0]  # whoever is asked twice has handed nothing over the second time
        for held in (self.since, self.turns):
            held[some] = np.stack([np.zeros(len(some)), held[some, 0]], axis=1)
        return gram

    def _pool(self, who: IntArray, gram: FloatArray) -> None:
        rows, d = self.models.rows(who), self.models.dim
        self.models.replace(rows, gram.reshape(-1, d, d), np.zeros((len(rows), d)), np.zeros(len(rows)))
