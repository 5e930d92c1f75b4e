"""Agents that tell each other their observations, and act on processes over agents and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.contract.arrays import (
    Array,
    FloatArray,
    IntArray,
    State,
    check_arms,
    check_feedback,
    check_finite,
)
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.portrait import KNOWN
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError
from fedbandits.models.climbing import Climbing
from fedbandits.models.joint_process import Observations
from fedbandits.models.judging import IndexAgents
from fedbandits.models.shared_processes import SharedProcesses

if TYPE_CHECKING:
    from fedbandits.algorithms.kernel.graph.parameters import GraphKernelParameters


class GraphKernelAgents(IndexAgents, Climbing):
    """n agents that act optimistically on all they have seen or heard: mu + width sigma / sqrt(lambda).

    What an agent knows is a sequence: by the round in which it came to know of an observation, of one round by the
    round in which it was made, then by agent. So agents that know the same know it in the same order (see
    `models.shared_processes`). An agent's own observation is its `last` until the round ends, and `waiting` says
    whether it still is; `clock` (n,) counts rounds.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "processes",
        "rng",
        "clock",
        "waiting",
        "last_point",
        "last_reward",
        "last_context",
        "last_born",
    )

    def __init__(
        self, given: GraphKernelParameters, problem: Problem, reaches: Sequence[IntArray], n: int, rng: Streams
    ) -> None:
        super().__init__(n)
        self._given = given
        self._dim = problem.dim
        self._hops = given.hops(problem)
        self._rule = given.widths(problem)
        self._turns = given.revisions()
        self._estimates = given.likeness == "estimated"
        model = given.model(problem, rng)
        self.processes = SharedProcesses(model, rng.identities, reaches, given.similarity(problem), problem.agents)
        self.rng = rng
        self.clock = np.zeros(n, dtype=np.int64)
        self.waiting = np.zeros(n, dtype=np.bool_)
        self.last_point = np.zeros((n, problem.dim))
        self.last_reward = np.zeros(n)
        self.last_context = np.zeros((n, model.extra))
        self.last_born = np.zeros(n, dtype=np.int64)

    # decisions

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`; where K_z is estimated, with a context drawn from all that were shown."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        if self._estimates:
            check_finite("arms", who, arms)  # any of them may be told
        self._settle(who)
        rows = np.arange(len(who))
        if self._estimates:
            drawn = (self.rng.uniform(who) * arms.shape[1]).astype(np.int64)
            self.last_context[who] = arms[rows, np.minimum(drawn, arms.shape[1] - 1)]
        self.last_point[who] = arms[rows, picks]
        self.last_reward[who] = rewards
        self.last_born[who] = self.clock[who]
        self.waiting[who] = True

    def posterior(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mu and sigma, (w, K) each."""
        check_arms(who, arms, self._n, self._dim)
        check_finite("arms", who, arms)  # what is infinitely far away would have a score
        self._settle(who)
        return self.processes.posterior(who, arms)

    def width(self, who: IntArray) -> FloatArray:
        """(w,) how far f may be off, in units of sigma / sqrt(lambda)."""
        return self._rule(self.processes.logdets[who], self.processes.counts[who])

    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        mean, deviation = self.posterior(who, arms)
        return np.asarray(mean + (self.width(who) / np.sqrt(self._given.ridge))[:, None] * deviation)

    # messages

    def say(self, learned: IntArray) -> Sequence[Message]:
        """What was just observed. With it the round ends, and what was told before it may tell who is like whom."""
        earlier = self.waiting & (self.last_born < self.clock)
        self._settle(np.flatnonzero(earlier))
        self._revise()
        self.clock += 1
        arrays: dict[str, Array] = {"point": self.last_point[learned], "reward": self.last_reward[learned]}
        if self._estimates:
            arrays["context"] = self.last_context[learned]
        return (Message("observation", learned, arrays),)

    def hear(self, inbox: Inbox) -> None:
        """Take in what those within reach have observed."""
        arrays, origins = inbox.said.arrays, inbox.said.who
        if inbox.said.kind != "observation":
            super().hear(inbox)
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise WireError(f"{name!r} of {inbox.said.kind!r} is not finite")
        contexts = arrays["context"] if self._estimates else np.zeros((len(origins), 0))
        told = Observations(arrays["point"], arrays["reward"], inbox.born, contexts)
        heard = self.processes.place[inbox.to, origins[inbox.row]] >= 0
        self._take_in(told, origins, inbox.to[heard], inbox.row[heard])

    def portrait(self) -> State:
        """How many observations each agent acts on; see `portrait`."""
        self._settle(np.arange(self._n))
        return {KNOWN: self.processes.counts}

    def _settle(self, who: IntArray) -> None:
        """Those of `who` whose own observation still waits take it in."""
        who = who[self.waiting[who]]
        if len(who):
            own = self._own(who)
            rows = np.arange(len(who))
            self.processes.learn(
                who, np.arange(len(who) + 1), rows, own, self.rng.identities[who], more_to_come=self._more()
            )
            self.waiting[who] = False

    def _take_in(self, told: Observations, origins: IntArray, to: IntArray, row: IntArray) -> None:
        """Letters (e,): `row` of what was `told` by `origins` (rows,) is for agent `to`; with them comes what an agent
        has itself observed in this round.
        """
        listeners = np.unique(to)
        self._settle(listeners[self.last_born[listeners] < self.clock[listeners] - 1])
        mine = listeners[self.waiting[listeners]]
        own = self._own(mine)
        pool = Observations(*(np.concatenate(pair) for pair in zip(told[:4], own[:4], strict=True)))
        known = np.concatenate([origins, self.rng.identities[mine]])
        names = _named(pool, known)
        to, row = np.concatenate([to, mine]), np.concatenate([row, len(origins) + np.arange(len(mine))])
        row = names[row]
        order = np.lexsort((known[row], pool.born[row], to))
        starts = np.searchsorted(to[order], listeners)
        starts = np.append(starts, len(to))
        self.processes.learn(listeners, starts, row[order], pool, known, more_to_come=self._more())
        self.waiting[mine] = False

    def _own(self, who: IntArray) -> Observations:
        return Observations(self.last_point[who], self.last_reward[who], self.last_born[who], self.last_context[who])

    # who is like whom

    def _more(self) -> bool:
        """Whether K_z will be estimated again."""
        return len(self._turns) > 0 and int(self.clock.max()) <= self._turns[-1] + self._hops - 1

    def _revise(self) -> None:
        """Estimate K_z if it is time: contexts said before round R have reached everybody hops - 1 rounds later."""
        due = np.flatnonzero(self._turns + self._hops - 1 == self.clock[0])
        if len(due):
            turn = int(self._turns[due[0]])
            last = bool(due[0] == len(self._turns) - 1)
            self.processes.estimate(turn, self._given.sigma, self._given.squared, more_to_come=not last)

    # snapshots

    def _arrays(self, prefix: str = "") -> State:
        self._settle(np.arange(self._n))
        return super()._arrays(prefix)

    def _share(self, agent: int, prefix: str) -> State:
        self._settle(np.arange(self._n))
        return super()._share(agent, prefix)


def _named(pool: Observations, origins: IntArray) -> IntArray:
    """(rows,) for each observation the first one that is the same, to the last bit."""
    first: dict[bytes, int] = {}
    columns = [origins[:, None], pool.born[:, None], pool.points, pool.rewards[:, None], pool.contexts]
    table = np.concatenate([np.ascontiguousarray(one, dtype=one.dtype).view(np.int64) for one in columns], axis=1)
    keys = np.ascontiguousarray(table)
    return np.array([first.setdefault(key.tobytes(), at) for at, key in enumerate(keys)], dtype=np.int64)
