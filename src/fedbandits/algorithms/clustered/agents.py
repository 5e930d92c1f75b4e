"""Agents that learn in clusters: explore, watch their trigger, hand over their own data, take in their cluster's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, check_arms, check_finite
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams, WordArray, next_uniform
from fedbandits.contract.wire import Bound, Utterance, WireError, WireField
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.limits import growth
from fedbandits.models.optimistic import OptimisticAgents, Optimists, choose_one
from fedbandits.models.ridge import RidgeModels, Sharers, learn_one
from fedbandits.models.sharing import COLLECT, handed_over, statistics, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import Level, both, code_of, level_at, urgencies

REPORT = Utterance("report", "down")
"""The server's signal: tell me what you have observed, for the test."""
ASK_LEVEL = Utterance("level", "down")
"""The server's signal: how far has your trigger come?"""


def _highest(problem: Problem, asked: Mapping[str, Array]) -> float:
    """What one observation more can raise a level by: the growth of the log-determinant, or 1 by a schedule."""
    return max(1.0, growth(problem, asked))


_LEVEL = Bound(_highest, low=0.0)
LEVEL = Utterance("level", "up", (WireField("level", bound=_LEVEL),))
OWN = Utterance("own", "up", (*statistics(adds="increment"), WireField("level", optional=True, bound=_LEVEL)))
"""An agent's own observations since its last such message, never what it received."""
SEEN = Utterance("all", "up", statistics(adds="total"))
"""All own observations so far: for the test alone, without handing them over."""
SHARE = Utterance("share", "down", (*statistics(adds="increment"), WireField("alarm")))
"""The sum of what the members of a cluster have just handed over, and the trigger level to call at."""
TOTAL = Utterance("total", "down", (*statistics(adds="total"), WireField("alarm")))
"""The sum of all own observations of a cluster's members, in place of what the agent had received."""
ALARM = Utterance("alarm", "down", (WireField("alarm"),))
"""The trigger level to call at from now on."""


class Clustered(NamedTuple):
    """`ClusterAgents` for compiled loops; `aside` keeps observations as well where `sets_aside`."""

    own: Optimists
    level: int
    alarm: FloatArray
    turns: IntArray
    met: BoolArray
    unmet: bool
    """Whether there are any who have not been met."""
    explore: int
    words: WordArray
    sets_aside: bool
    aside_gram: FloatArray
    aside_moment: FloatArray
    aside_count: FloatArray


@stands_for(choose, Clustered)
@jit_inside
def _choose(agents: Clustered, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if agents.unmet and agents.turns[i] < agents.explore:
        return int(next_uniform(agents.words, i) * arms.shape[2])
    return choose_one(agents.own, i, arms, row, room)


@stands_for(learn, Clustered)
@jit_inside
def _learn(agents: Clustered, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    due = learn_one(agents.own.models, i, arms, row, pick, reward, room)
    agents.turns[i] += 1
    if agents.sets_aside:
        kernels.accumulate_one(
            agents.aside_gram, agents.aside_moment, agents.aside_count, i, arms, row, pick, reward, room
        )
    return due


@stands_for(calls, Clustered)
@jit_inside
def _calls(agents: Clustered, i: int) -> bool:
    models = agents.own.models
    if not models.seen[i] > 0.0:
        return False
    if agents.unmet and not agents.met[i]:
        return bool(agents.turns[i] >= agents.explore)
    return bool(level_at(agents.level, models.seen[i], models.growth[i]) >= agents.alarm[i])


class Increments(NamedTuple):
    """`IncrementAgents` none of whom waits for the result of a service, for compiled conversations."""

    own: Sharers
    alarm: FloatArray


class ClusterAgents(OptimisticAgents):
    """LinUCB agents that first explore, then call when Delta t * log-determinant growth reaches their alarm.

    The level of agent i is Delta t_i log(det V_i / det(V_i - Delta V_i)) over its own observations since it was last
    served. During its first `explore` turns it plays uniformly random arms and calls only at the end of them.
    `aside` keeps a second set of its own statistics: what it sent and the cluster's answer will contain
    (`IncrementAgents`), or what it has not sent yet (`TotalAgents`).
    """

    keeps: ClassVar[tuple[str, ...]] = (*OptimisticAgents.keeps, "rng", "aside", "alarm", "turns", "met")

    def __init__(
        self,
        parameters: LinearParameters,
        problem: Problem,
        n: int,
        rng: Streams,
        *,
        explore: int,
        alarm: float,
        level: Level = both,
    ) -> None:
        rule = parameters.widths(problem, problem.dim)
        super().__init__(parameters.models(problem, n), rule, counted=parameters.tells_counts)
        self._explore = explore
        self._level = level
        self.rng = rng
        self.aside = Statistics(n, problem.dim)
        self.alarm = np.full(n, alarm)
        self.turns = np.zeros(n, dtype=np.int64)
        self.met = np.full(n, explore == 0)
        """(n,) whether the server has asked for an agent's observations: it has explored and need not say so again."""

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """A random arm while exploring, the optimistic one afterwards."""
        if self.met.all():
            return super().choose(who, arms)
        check_arms(who, arms, self._n, self.models.dim)
        exploring = self._exploring(who)
        if not exploring.any():
            return super().choose(who, arms)
        check_finite("arms", who, arms)  # before the streams move on
        picks = np.empty(len(who), dtype=np.int64)
        # only explorers draw: an agent's stream must not depend on who else is awake
        picks[exploring] = (self.rng.uniform(who[exploring]) * arms.shape[1]).astype(np.int64)
        if not exploring.all():
            picks[~exploring] = super().choose(who[~exploring], arms[~exploring])
        return picks

    sets_aside: ClassVar[bool] = False
    """Whether what is learned is put aside as well."""

    def compiled(self) -> Any:
        """See `Population`."""
        own, level = self.optimists(), code_of(self._level)
        changed = TotalAgents if self.sets_aside else ClusterAgents
        known = untouched(self, ClusterAgents, "choose", "width", "calling", "level", "_exploring")
        if own is None or level is None or not known or not untouched(self, changed, "learn"):
            return None
        arrays = (self.alarm, self.turns, self.met, not self.met.all(), self._explore, self.rng.words)
        return Clustered(own, level, *arrays, self.sets_aside, *self.aside)

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm, of those who no longer explore; see `Population`."""
        found = super().scores(who, arms)
        exploring = self._exploring(who)
        return found if found is None or not exploring.any() else np.where(exploring[:, None], np.nan, found)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The same for every arm while exploring; see `Population`."""
        check_arms(who, arms, self._n, self.models.dim)
        exploring = self._exploring(who)
        if not exploring.any():
            return None
        found = np.full(arms.shape[:2], 1.0 / arms.shape[1])
        if not exploring.all():
            left = ~exploring
            found[left] = np.eye(arms.shape[1])[super().choose(who[left], arms[left])]
        return found

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        super().learn(who, arms, picks, rewards)
        self.turns[who] += 1

    def level(self) -> FloatArray:
        """(n,) what each agent's alarm is held against: observations since its last service, times their growth unless
        there is a schedule.
        """
        return self._level(self.models.fresh.count, self.models.growth)

    def calling(self) -> BoolArray:
        """Who has explored enough and was not asked yet, or whose level has reached its alarm."""
        due = (self.level() >= self.alarm) & (self.models.fresh.count > 0)
        if not self.met.all():
            due = np.where(self.met, due, (self.turns >= self._explore) & (self.models.fresh.count > 0))
        return np.asarray(due)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger, or before the first service its exploration, has come; see `Population`."""
        exploring = urgencies(self.turns.astype(np.float64), self._explore)
        return np.where(self.met, urgencies(self.level(), self.alarm), exploring)

    def answer(self, request: Message) -> Message | None:
        """What all clustered agents understand: asking for the level, setting the alarm."""
        who = request.who
        if request.kind == ASK_LEVEL.kind:
            return Message(LEVEL.kind, who, {"level": self.level()[who]})
        if request.kind == ALARM.kind:
            self.alarm[who] = request.arrays["alarm"]
            return None
        raise WireError(f"clustered agents do not understand {request.kind!r}")

    def _exploring(self, who: IntArray) -> BoolArray:
        """(w,) who plays a random arm in this turn."""
        return np.asarray(~self.met.all() & (self.turns[who] < self._explore))


class IncrementAgents(ClusterAgents):
    """Share increments: a service adds what the other members observed since they were last served."""

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again: no service will contain it."""
        if sent.kind != OWN.kind:
            raise WireError(f"clustered agents cannot take back {sent.kind!r}")
        gram, moment, count = handed_over(sent, observed)
        self.models.unsettle(sent.who, gram, moment, count)
        self.aside.merge(sent.who, -gram, -moment, -count)

    def answer(self, request: Message) -> Message | None:
        """Report for the test, hand over for a service, take in its result."""
        models, who, counted = self.models, request.who, self._counted
        if request.kind == REPORT.kind:
            self.met[who] = True
            return Message(SEEN.kind, who, models.fresh.rows(who, counted=counted))
        if request.kind == COLLECT.kind:
            handed = models.hand_over(who)
            self.aside.merge(who, *handed)
            return Message(OWN.kind, who, handed.named(counted=counted))
        if request.kind == SHARE.kind:
            own = self.aside.rows(who, counted=counted)
            others = {name: request.arrays[name] - own[name] for name in own}
            models.absorb(who, *told(Message(request.kind, who, others)))
            self.aside.clear(who)
            self.alarm[who] = request.arrays["alarm"]
            return None
        return super().answer(request)

    def answering(self) -> Any:
        """See `Population`: while no service is under way."""
        known = type(self.models) is RidgeModels and untouched(self, IncrementAgents, "answer", "calling", "level")
        if not known or self.aside.count.any():
            return None
        return Increments(self.models.sharers(counted=self._counted), self.alarm)


class TotalAgents(ClusterAgents):
    """Share clean totals: a service replaces what was received, so a wrong neighbour leaves no trace."""

    sets_aside: ClassVar[bool] = True

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was reported is put aside again. Who has reported nothing else has not been met."""
        if sent.kind != OWN.kind:
            raise WireError(f"clustered agents cannot take back {sent.kind!r}")
        who = sent.who
        self.aside.merge(who, *handed_over(sent, observed))
        self.met[who] = (self._explore == 0) | (self.turns[who] > self.aside.count[who])

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, also put aside until it is reported."""
        super().learn(who, arms, picks, rewards)
        self.aside.observe(who, arms, picks, rewards)

    def answer(self, request: Message) -> Message | None:
        """Report what is new, take in the cluster's total."""
        models, who = self.models, request.who
        if request.kind == REPORT.kind:
            self.met[who] = True
            own = self.aside.rows(who, counted=self._counted) | {"level": self.level()[who]}
            self.aside.clear(who)
            return Message(OWN.kind, who, own)
        if request.kind == TOTAL.kind:
            unsent = self.aside.rows(who, counted=True)
            models.fresh.gram[who], models.fresh.moment[who] = unsent["gram"], unsent["moment"]
            models.fresh.count[who] = unsent["count"]
            models.replace(who, *told(request))
            self.alarm[who] = request.arrays["alarm"]
            return None
        return super().answer(request)
