"""Q-learning in a game: every agent has a table over its own states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.planning.games.own_block import OwnBlock
from fedbandits.contract.arrays import Array, FloatArray, IntArray, State, check_arms, check_feedback, check_finite
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Episodes
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.models.features import Features, Identity
from fedbandits.models.situated import SituatedAgents
from fedbandits.models.views import Views, grown

_NONE = -1


@parameters
class QIndependent:
    """Tabular Q-learning (Watkins 1989) of every agent for itself.

    A state is what an agent is shown, told by its numbers: its own block ("own") or all that it sees ("all", of which
    there are as many as joint states). Values are kept for every stage h, state and action, and begin at `start` for
    every stage that is left, including h: (H - h) `start`, which is optimism if it is more than what a stage brings.
    After a step from x to x',

        Q_h(x, a) <- (1 - alpha) Q_h(x, a) + alpha (r + max Q_{h+1}(x', .)),

    alpha being `rate`, or, with "decaying", (H + 1) / (H + m) at the m-th visit (Jin, Allen-Zhu, Bubeck & Jordan 2018).
    With probability `epsilon` an agent takes any action, else the best one, the first of equals. The source says no
    more than "individual Q-learning on the agents' personal state space": all of this is our reading.

    Guarantee: none, since others who learn make no MDP.
    """

    sees: Literal["own", "all"] = "own"
    start: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    rate: Annotated[float, Field(gt=0, le=1)] | Literal["decaying"] = 0.5
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.05

    about: ClassVar[About] = About(
        name="q-independent",
        family="planning",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none: to an agent that learns alone, others who learn are no MDP",
        source="baseline of Dubey (2022), thesis, section 10.6",
        environment="team-mdp",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> QAgents:
        """n agents with empty tables."""
        return QAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody."""
        return


class Tables(Stateful):
    """For n agents values `value` and visits `visits` (n, states, H, K) of the states in `views`."""

    keeps: ClassVar[tuple[str, ...]] = ("views", "value", "visits")
    resizes: ClassVar[frozenset[str]] = frozenset({"value", "visits"})

    def __init__(self, n: int, dim: int, start: FloatArray, actions: int) -> None:
        self.views = Views(n, dim)
        self._start = start
        self.value = np.zeros((n, 1, len(start), actions))
        self.visits = np.zeros((n, 1, len(start), actions), dtype=np.int64)

    def place(self, agent: int, seen: FloatArray) -> int:
        """The number of a state (K, d); -1 where it is new."""
        arms, ends = self.views.of(agent)
        if len(ends) == 0 or len(arms) != len(ends) * len(seen):
            return _NONE
        same = (arms.reshape(len(ends), -1) == seen.ravel()).all(axis=1)
        return int(same.argmax()) if same.any() else _NONE

    def note(self, agent: int, seen: FloatArray) -> int:
        """The number of a state, which is made where it is new."""
        known = int(self.views.count[agent])
        place = int(self.views.intern(np.array([agent]), seen[None])[0])
        if place == known:
            if known >= self.value.shape[1]:
                self.value, self.visits = grown(self.value, known + 1), grown(self.visits, known + 1)
            self.value[agent, place] = self._start[:, None]
        return place

    def _arrays(self, prefix: str = "") -> State:
        rows = int(self.views.count.max(initial=0))
        own: State = {prefix + name: getattr(self, name)[:, :rows] for name in ("value", "visits")}
        return self.views._arrays(f"{prefix}views.") | own

    def _share(self, agent: int, prefix: str) -> State:
        one, rows = slice(agent, agent + 1), int(self.views.count[agent])
        own: State = {prefix + name: getattr(self, name)[one, :rows] for name in ("value", "visits")}
        return self.views._share(agent, f"{prefix}views.") | own

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._check_grown(state, prefix)
        rows = int(state[f"{prefix}views.count"].max(initial=0))
        for name in ("value", "visits"):
            held, given = getattr(self, name), state[prefix + name].shape
            needed = (len(held), rows, *held.shape[2:])
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this needs {needed}")


class QAgents(SituatedAgents):
    """n agents, each with a table of its own (`tables`). `stage` (n,) is how far its episode is; `last` (n, 2) are the
    state and the action that it came from, and `got` (n,) what that paid.
    """

    keeps: ClassVar[tuple[str, ...]] = ("tables", "stage", "last", "got", "rng")

    def __init__(self, given: QIndependent, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(n, problem.need(Episodes, by=given.about).length)
        self._given, self._dim, self._arms = given, problem.dim, problem.arms
        own = given.sees == "own"
        self._features: Features = OwnBlock(problem, rng.identities) if own else Identity(problem.dim)
        left = (self.length - np.arange(self.length)).astype(np.float64)
        self.tables = Tables(n, self._features.size, np.asarray(given.start * left, dtype=np.float64), problem.arms)
        self.last = np.full((n, 2), _NONE)
        self.got = np.zeros(n)
        self.rng = rng

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The best action, or any."""
        best = self._best(who, arms)
        drawn = self.rng.uniform(who, 2)
        any_action = np.minimum((drawn[:, 1] * arms.shape[1]).astype(np.int64), arms.shape[1] - 1)
        return np.where(drawn[:, 0] < self._given.epsilon, any_action, best)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """See `Population`."""
        best, many = self._best(who, arms), arms.shape[1]
        found = np.full((len(who), many), self._given.epsilon / many)
        found[np.arange(len(who)), best] += 1 - self._given.epsilon
        return found

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """The step that led here is complete, and another one has begun; or the episode is over."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        self._check(who, arms)
        self.heard(who)
        seen = self._features.of(who, arms)
        for i, a in enumerate(who):
            if not arms[i].any():
                self._complete(a, 0.0)
                self.stage[a] = 0
                continue
            place = self.tables.note(a, seen[i])
            self._complete(a, float(self.tables.value[a, place, self.stage[a]].max()))
            self.last[a], self.got[a] = (place, picks[i]), rewards[i]
            self.stage[a] += 1
            if self.stage[a] == self.length:
                self._complete(a, 0.0)
                self.stage[a] = 0

    def truncate(self, who: IntArray, arms: FloatArray) -> None:
        """See `Population`: the last step is worth what is believed of the state it led to."""
        self._check(who, arms)
        seen = self._features.of(who, arms)
        for i, a in enumerate(who):
            if self.stage[a]:
                place = self.tables.note(a, seen[i])
                self._complete(a, float(self.tables.value[a, place, self.stage[a]].max()))
                self.stage[a] = 0

    def _complete(self, a: int, ahead: float) -> None:
        """Learn from the last step of agent `a`, `ahead` being what is to come."""
        place, action = self.last[a]
        if place == _NONE:
            return
        at = (a, place, self.stage[a] - 1, action)
        self.tables.visits[at] += 1
        rate = self._given.rate
        step = (self.length + 1) / (self.length + self.tables.visits[at]) if rate == "decaying" else rate
        self.tables.value[at] += step * (self.got[a] + ahead - self.tables.value[at])
        self.last[a] = _NONE

    def _best(self, who: IntArray, arms: FloatArray) -> IntArray:
        check_arms(who, arms, self._n, self._dim)
        self._check(who, arms)
        seen = self._features.of(who, arms)
        best, stages = np.zeros(len(who), dtype=np.int64), self.standing(who)
        for i, a in enumerate(who):
            place = self.tables.place(a, seen[i])
            if place != _NONE:
                best[i] = int(self.tables.value[a, place, stages[i]].argmax())
        return best

    def _check(self, who: IntArray, arms: FloatArray) -> None:
        check_finite("arms", who, arms)
        if len(who) and arms.shape[1] != self._arms:
            raise ValueError(f"arms must be {self._arms} for each agent, as the problem says, got {arms.shape[1]}")
