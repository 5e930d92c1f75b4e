"""Agents that plan anew after every episode, with all the transitions they know of: their own, and what others tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.planning.messages import COLLECT, NEWS, TRANSITIONS, in_message, of_message
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import WireError
from fedbandits.linalg import kernels, value_iteration
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.episodic import FRESH, SPOKEN_FOR, EpisodicAgents, Walkers, farthest_one, walk_on
from fedbandits.models.features import Features
from fedbandits.models.stage_models import StageModels
from fedbandits.models.transitions import Table, Told, Transitions
from fedbandits.models.triggers import Trigger, Watch, fires, watch_of
from fedbandits.models.views import ViewTable

HANDED = 1
"""The part of an agent's own transitions that it has handed over and not yet been told of."""


class Planning(NamedTuple):
    """`Planners` for compiled loops."""

    walkers: Walkers
    pool_views: ViewTable
    pool: Table
    since: FloatArray
    stale: BoolArray
    weights: FloatArray
    beta: float
    most: FloatArray
    watch: Watch


@jit_inside
def _plan(agents: Planning, i: int) -> None:
    walkers = agents.walkers
    known, inverse = (walkers.views, walkers.own, agents.pool_views, agents.pool), walkers.models.inverse
    value_iteration.plan_one(known, i, len(agents.most), inverse, agents.beta, agents.most, agents.weights)
    agents.stale[i] = False


@stands_for(choose, Planning)
@jit_inside
def _choose(agents: Planning, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if agents.stale[i]:
        _plan(agents, i)
    at = i * len(agents.most) + agents.walkers.stage[i]
    return kernels.pick_one(agents.walkers.models.inverse, agents.weights, at, agents.beta, arms, row, room)


@stands_for(learn, Planning)
@jit_inside
def _learn(agents: Planning, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    done, due = walk_on(agents.walkers, i, arms, row, pick, reward, room)
    if done:
        agents.since[i, 0] += 1.0
        agents.stale[i] = True
        if agents.watch.code < 0 and not due:  # nobody else has a say: plan while all of it is at hand
            _plan(agents, i)
    return due


@stands_for(calls, Planning)
@jit_inside
def _calls(agents: Planning, i: int) -> bool:
    if agents.watch.code < 0 or not agents.since[i, 0] > 0.0:
        return False
    return fires(agents.watch, agents.since[i, 0], farthest_one(agents.walkers, i))


class Planners(EpisodicAgents):
    """Agents that solve the regressions of all stages, backwards, over every transition they know of.

        w_h = L_h^-1 sum phi (r + V_{h+1}(x')),  L_h = lambda I + sum phi phi^T.

    `pool` are transitions of everybody, as the server tells them (`news`), those of the agent itself among them; `own`
    has the others, `FRESH` ones and those that were `HANDED` over (`transitions`) and not told yet. `told` (n, H, d, d)
    is sum phi phi^T over the pool. `since` (n, 2) counts finished episodes since an agent last handed over, and before
    that: it calls when `trigger` fires (None: never), by episodes and by the growth of the stage that has grown most.

    Plans follow from what is kept, and are made when they are needed.
    """

    keeps: ClassVar[tuple[str, ...]] = (*EpisodicAgents.keeps, "pool", "told", "since")

    def __init__(
        self,
        features: Features,
        own: Transitions,
        pool: Transitions,
        models: StageModels,
        beta: float,
        most: FloatArray,
        trigger: Trigger | None = None,
    ) -> None:
        super().__init__(features, own, models, beta)
        self.pool = pool
        self.told = np.zeros((len(self), self.length, models.dim, models.dim))
        self.since = np.zeros((len(self), 2))
        self._most = most
        self._trigger = trigger
        self._weights = np.zeros((len(models), models.dim))
        self._stale = np.zeros(len(self), dtype=np.bool_)

    def compiled(self) -> Any:
        """See `Population`: on the arms as they are, with a trigger that compiled loops know."""
        watch = watch_of(self._trigger)
        walkers = self.walkers() if watch is not None and untouched(self, Planners, *SPOKEN_FOR) else None
        if walkers is None or watch is None:
            return None
        known = walkers, self.pool.views.table, self.pool.table, self.since
        return Planning(*known, self._stale, self._weights, self.beta, self._most, watch)

    def regressions(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """See `EpisodicAgents`."""
        behind = who[self._stale[who]]
        if len(behind):
            known = self.own.views.table, self.own.table, self.pool.views.table, self.pool.table
            inverses = self.models.inverse
            value_iteration.plan(known, behind, self.length, inverses, self.beta, self._most, self._weights)
            self._stale[behind] = False
        return self._weights, self.models.inverse

    def closed(self, who: IntArray) -> None:
        """One more episode to plan with."""
        self.since[who, 0] += 1
        self._stale[who] = True

    # with a server

    def calling(self) -> BoolArray:
        """Whose trigger has fired."""
        if self._trigger is None:
            return super().calling()
        return self._trigger.fired(self.since[:, 0], self.models.farthest())

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return None if self._trigger is None else self._trigger.urgency(self.since[:, 0], self.models.farthest())

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what everybody has done."""
        who = request.who
        if request.kind == COLLECT.kind:
            reply = in_message(TRANSITIONS.kind, who, self.own.told(who, FRESH))
            self.own.move(who, FRESH, HANDED)
            self.models.settle(self.models.rows(who))
            self.since[who] = np.stack([np.zeros(len(who)), self.since[who, 0]], axis=1)
            return reply
        if request.kind != NEWS.kind:
            raise WireError(f"{type(self).__name__} do not understand {request.kind!r}")
        self._hear(who, of_message(request, self.length))
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again; see `Population`."""
        if sent.kind != TRANSITIONS.kind:
            super().restore(sent, observed)
        who, told = sent.who, of_message(sent, self.length)
        rows = self.models.rows(who)
        gram, count = grams(told, self.length)
        self.models.unsettle(rows, gram, np.zeros((len(rows), self.models.dim)), count)
        self.own.absorb(who, told, HANDED, sign=-1)
        self.own.absorb(who, told, FRESH)
        self.since[who, 0] += self.since[who, 1]
        self.since[who, 1] = 0

    def _hear(self, who: IntArray, told: Told) -> None:
        rows, d = self.models.rows(who), self.models.dim
        gram = self.told[who].reshape(len(rows), d, d) + grams(told, self.length, len(who))[0]
        self.models.replace(rows, gram, np.zeros((len(rows), d)), np.zeros(len(rows)))
        self.told[who] = gram.reshape(len(who), self.length, d, d)
        self.pool.absorb(who, told)
        self.own.clear(who, HANDED)
        self._stale[who] = True

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._stale[:] = True


def grams(told: Told, length: int, copies: int | None = None) -> tuple[FloatArray, FloatArray]:
    """(w H, d, d) sum phi phi^T and (w H,) how many, of every stage of each list; a single list in `copies`."""
    gram, count = value_iteration.visit_sums(told.arms, told.stage, told.arm, told.number, told.many, length)
    if copies is not None and len(told.many) == 1 and copies > 1:
        return np.tile(gram, (copies, 1, 1)), np.tile(count, copies)
    return gram, count
