"""Ridge regressions of very many agents: what was told alike is kept once, own observations one by one.

As `models.ridge`, in less memory. Between synchronisations most agents rest on the same statistics, and have seen a
handful of arms since: d + 1 numbers for each of these instead of 3 d^2 numbers (`linalg.shared_inverse`). At d = 25
an agent with four observations has 0.9 kB instead of 15. What is computed is the same, but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.compiled import calls, choose, learn, stands_for
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_inside
from fedbandits.linalg.semidefinite import nearest_semidefinite
from fedbandits.linalg.shared_inverse import (
    Resting,
    fold_shared,
    knowledge_shared,
    learn_shared,
    pick_shared,
    picks_shared,
    relearn_shared,
    scores_shared,
    sums_of_points,
)
from fedbandits.models.ridge import REFRESH_EVERY, ROUNDING, RidgeModels, RidgeSums, solve
from fedbandits.models.shared_rows import SharedRows
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import Watch, fires
from fedbandits.models.width import Radius, width_at

_FEW = 4
"""Observations of an agent that is told something often enough for all this to pay."""


def numbers_held(dim: int) -> int:
    """How many numbers an agent of `SharedRidge` keeps that holds four observations; d + 1 more for each other one that
    it makes between two synchronisations, and somewhat more than one of `RidgeModels` once it has seen d/2.
    """
    return min(_FEW, _most(dim)) * (dim + 1) + 7


def _most(dim: int) -> int:
    """How many observations an agent holds before they are multiplied out: more would take longer than its matrix."""
    return max(1, dim // 2)


def _room(agents: int, dim: int, least: int) -> tuple[FloatArray, FloatArray]:
    """Zeros for the observations of so many agents and what they brought: for as many as anybody may hold.

    Systems that give out memory when it is written to ask for addresses alone; where these are refused there is room
    for fewer, `least` at the least.
    """
    room = max(_most(dim), least)
    while True:
        try:
            return np.zeros((room, agents, dim)), np.zeros((room, agents))
        except MemoryError:
            if room == least:
                raise
            room = max(room // 2, least)


class SharedArrays(NamedTuple):
    """What `SharedRidge` learns into, for compiled loops."""

    known: Resting
    settled: FloatArray
    seen: FloatArray
    logdet: FloatArray
    growth: FloatArray
    room: int
    """How many observations an agent can hold."""


class SharedOptimists(NamedTuple):
    """`OptimisticAgents` on a `SharedRidge`, for compiled loops."""

    models: SharedArrays
    width: Radius
    watch: Watch


@stands_for(choose, SharedOptimists)
@jit_inside
def _choose(agents: SharedOptimists, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    m = agents.models
    width = width_at(agents.width, m.logdet[i], m.settled[i] + m.seen[i])
    return pick_shared(m.known, i, width, arms, row, room)


@stands_for(learn, SharedOptimists)
@jit_inside
def _learn(
    agents: SharedOptimists, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    return _learn_one(agents.models, i, arms, row, pick, reward)


@stands_for(calls, SharedOptimists)
@jit_inside
def _calls(agents: SharedOptimists, i: int) -> bool:
    return fires(agents.watch, agents.models.seen[i], agents.models.growth[i])


@jit_inside
def _learn_one(m: SharedArrays, i: int, arms: FloatArray, row: int, pick: int, reward: float) -> bool:
    """Agent i learns; whether its room is full, so that `refresh` has to be called before it learns again."""
    gain = learn_shared(m.known, i, arms, row, pick, reward)
    m.logdet[i] += gain
    m.growth[i] += gain
    m.seen[i] += 1.0
    return bool(m.known.held[i] >= m.room)


@jit
def _learn_all(
    m: SharedArrays, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray, gain: FloatArray
) -> bool:
    full = False
    for a in range(len(who)):
        before = m.logdet[who[a]]
        full |= _learn_one(m, who[a], lanes, a, picks[a], rewards[a])
        gain[a] = m.logdet[who[a]] - before
    return full


class SharedRidge(SharedRows, RidgeModels):
    """n ridge regressions as `RidgeModels`, resting on rows of statistics that many of them share.

    Rows (m, ...): `gram` and `moment`, what was settled; `news`, `news_moment` and `news_count`, what was observed
    since by the one agent that has the row, where there is any; `inverted` = V^-1 and `estimate` = V^-1 b of both
    together, `volume` = log det V, and `updates`, how many observations were multiplied into the inverse.

    Each agent has, on top of its row, the first `held` (n,) of r observations `points` (r, n, d) and `rewards` (r, n);
    the first `handed` (n,) of them were handed over. An agent that holds d/2 of them gets a row to itself, into which
    they are multiplied: one that never hears anything takes the memory of `RidgeModels`, and more. There is room for
    as many as an agent may hold, which takes memory where it is written to: the axis of agents is not the first.

    `logdet` and `growth` are those of `RidgeModels`. `base`, `fresh`, `inverse` and `theta` are copies, made for those
    who look on: (n, d, d).
    """

    rows: ClassVar[tuple[str, ...]] = (
        "gram",
        "moment",
        "news",
        "news_moment",
        "news_count",
        "inverted",
        "estimate",
        "volume",
        "updates",
    )
    _held: ClassVar[tuple[str, ...]] = ("points", "rewards")
    keeps: ClassVar[tuple[str, ...]] = ("row", *rows, *_held, "held", "handed", "settled", "seen", "logdet", "growth")
    resizes: ClassVar[frozenset[str]] = frozenset((*rows, *_held))

    def __init__(self, n: int, dim: int, ridge: float) -> None:
        super().__init__(n)
        self.ridge = ridge
        self._dim = dim
        self.gram, self.news, self.inverted = (kernels.aligned((1, dim, dim)) for _ in range(3))
        self.inverted[:, np.arange(dim), np.arange(dim)] = 1.0 / ridge
        self.moment, self.news_moment, self.estimate = (np.zeros((1, dim)) for _ in range(3))
        self.volume = np.full(1, dim * np.log(ridge))
        self.news_count, self.updates = np.zeros(1), np.zeros(1, dtype=np.int64)
        self.points, self.rewards = _room(n, dim, 1)
        self.held, self.handed = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.settled, self.seen = np.zeros(n), np.zeros(n)
        self.logdet, self.growth = np.full(n, dim * np.log(ridge)), np.zeros(n)
        self._last, self._vectors, self._weights = np.zeros(4), np.empty((0, dim)), np.empty(0)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self._dim

    # for those who look on

    @property
    def base(self) -> Statistics:  # type: ignore[override]
        """What was settled, of every agent."""
        found = self._summed(np.arange(len(self)), self.gram, self.moment, np.zeros_like(self.handed), self.handed)
        found.count[:] = self.settled
        return found

    @property
    def fresh(self) -> Statistics:  # type: ignore[override]
        """What was observed since, of every agent."""
        return self._news(np.arange(len(self)))

    @property
    def inverse(self) -> FloatArray:  # type: ignore[override]
        """(n, d, d) V^-1."""
        return self._knowledge()[0]

    @property
    def theta(self) -> FloatArray:  # type: ignore[override]
        """(n, d) estimates."""
        return self._knowledge()[1]

    def matrices(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, d, d) V; see `RidgeModels`."""
        base, fresh = self.base, self.fresh
        return np.asarray(base.gram[who] + fresh.gram[who] + self.ridge * np.eye(self.dim))

    # deciding and learning

    @property
    def since(self) -> FloatArray:
        """(n,) see `RidgeModels`."""
        return self.seen

    def observed(self, who: IntArray) -> FloatArray:
        """(w,) see `RidgeModels`."""
        return np.asarray(self.settled[who] + self.seen[who])

    def choose(self, who: IntArray, arms: FloatArray, width: FloatArray) -> IntArray:
        """See `RidgeModels`."""
        return picks_shared(self._known(), who, width, kernels.as_lanes(arms))

    def scores(self, who: IntArray, arms: FloatArray, width: FloatArray) -> FloatArray:
        """See `RidgeModels`."""
        return scores_shared(self._known(), who, width, kernels.as_lanes(arms))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> FloatArray:
        """See `RidgeModels`."""
        gain = np.empty(len(who))
        if _learn_all(self.shared_arrays(), who, kernels.as_lanes(arms), picks, rewards, gain):
            self.refresh()
        return gain

    def shared_arrays(self) -> SharedArrays:
        """What compiled loops learn into, by reference."""
        return SharedArrays(self._known(), self.settled, self.seen, self.logdet, self.growth, len(self.points))

    def optimists(self, width: Radius, watch: Watch) -> SharedOptimists:
        """Optimistic agents on these models, for compiled loops."""
        return SharedOptimists(self.shared_arrays(), width, watch)

    def refresh(self) -> None:
        """Make room for the next observation of everybody; see `RidgeModels`."""
        most = _most(self.dim)
        full = np.flatnonzero(self.held >= most)
        if len(full):
            self._fold(full)
        held = int(self.held.max(initial=0))
        if held >= len(self.points):
            before = {name: getattr(self, name)[:held] for name in self._held}
            self.points, self.rewards = _room(len(self), self.dim, held + 1)
            for name in self._held:
                getattr(self, name)[:held] = before.pop(name)

    # talking

    def hand_over(self, who: IntArray) -> RidgeSums:
        """See `RidgeModels`."""
        found = self._news(who)
        self.settle(who)
        return RidgeSums(found.gram, found.moment, found.count)

    def settle(self, who: IntArray) -> None:
        """See `RidgeModels`."""
        own = self.row[who[self.news_count[self.row[who]] > 0]]
        self.gram[own] += self.news[own]
        self.moment[own] += self.news_moment[own]
        self._forget_news(own)
        self.settled[who] += self.seen[who]
        self.seen[who] = 0.0
        self.growth[who] = 0.0
        self.handed[who] = self.held[who]

    def unsettle(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """See `RidgeModels`."""
        held = (self.handed[who] == count) & (self.news_count[self.row[who]] == 0)
        if held.any():
            some = who[held]
            self.handed[some] = 0
            self.settled[some] -= count[held]
            self.seen[some] += count[held]
            self.growth[some] = np.where(self.seen[some] > 0, self.logdet[some] - self.volume[self.row[some]], 0.0)
        if not held.all():
            self._take_apart(who[~held], gram[~held], moment[~held], count[~held])

    def _take_apart(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """`unsettle` where what was handed over is part of sums."""
        self._fold_all(who)  # nothing known changes
        rows = self.row[who]
        left = self.gram[rows] - gram
        rounding = np.minimum(ROUNDING * np.trace(self.gram[rows], axis1=1, axis2=2), self.ridge / 2)
        kept = nearest_semidefinite(left, rounding)
        settled = kernels.log_determinants(np.ascontiguousarray(kept), self.ridge)  # raises before anything is written
        self.gram[rows] = kept
        self.moment[rows] -= moment
        self.news[rows] += gram
        self.news_moment[rows] += moment
        self.news_count[rows] += count
        self.settled[who] -= count
        self.seen[who] += count
        mended = (kept != left).any(axis=(1, 2))
        if mended.any():
            self._factorise(who[mended])
        self.growth[who] = np.where(self.seen[who] > 0, self.logdet[who] - settled, 0.0)

    def replace(
        self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray, *, alone: bool = False
    ) -> None:
        """See `RidgeModels`. What is told to all alike arrives as one row shown w times (stride 0), and is one row for
        all who have nothing of their own multiplied in.
        """
        if len(who) == 0:
            return
        rows = self.row[who]
        lone = np.zeros(len(who), dtype=np.bool_) if alone else self.news_count[rows] > 0
        alike = len(who) == 1 or (gram.strides[0] == 0 and moment.strides[0] == 0)
        plain = np.flatnonzero(~lone)
        together = [plain] if alike and len(plain) else list(plain[:, None])
        mine = np.flatnonzero(lone)
        # everything is computed before anything is written, so that bad statistics change nothing
        ones = np.array([some[0] for some in together], dtype=np.int64)
        told = solve(gram[ones], moment[ones], self.ridge) if len(ones) else None
        own = rows[mine]
        if len(mine):
            known = solve(gram[mine] + self.news[own], moment[mine] + self.news_moment[own], self.ridge)
            below = kernels.log_determinants(np.ascontiguousarray(gram[mine]), self.ridge)
        if alone:
            self.held[who], self.handed[who], self.seen[who] = 0, 0, 0.0
        self.settled[who] = count
        self.growth[who] = 0.0
        if len(mine):
            self.gram[own], self.moment[own] = gram[mine], moment[mine]
            self.inverted[own], self.estimate[own], self.volume[own] = known
            self.updates[own] = 0
            self.growth[who[mine]] = self.volume[own] - below
        if len(together) == 1:
            self._claim_together(who[plain])
        elif together:
            self.claim_each(who[plain])
        if told is not None:
            given = self.row[who[ones]]
            self.gram[given], self.moment[given] = gram[ones], moment[ones]
            self.inverted[given], self.estimate[given], self.volume[given] = told
            self.updates[given] = 0
            self._forget_news(given)
        gain = np.empty(len(who))
        relearn_shared(self._known(), self.handed, who, gain)
        self.logdet[who] = self.volume[self.row[who]] + gain
        self.growth[who] += gain

    def absorb(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """See `RidgeModels`."""
        base = self._summed(who, self.gram, self.moment, np.zeros_like(self.handed), self.handed)
        self.replace(who, base.gram + gram, base.moment + moment, self.settled[who] + count)

    def recompute(self) -> None:
        """See `RidgeModels`."""
        everybody = np.arange(len(self))
        self._fold_all(everybody)
        self._factorise(everybody)
        settled = kernels.log_determinants(np.ascontiguousarray(self.gram[self.row]), self.ridge)
        self.growth[:] = np.where(self.seen > 0, self.logdet - settled, 0.0)

    # keeping

    def _arrays(self, prefix: str = "") -> State:
        """In a form that does not tell how it came about: rows in the order of the agents, no room that is not used."""
        found = super()._arrays(prefix)
        taken, place, row = np.unique(self.row, return_index=True, return_inverse=True)
        order = np.argsort(place)
        found |= {prefix + name: getattr(self, name)[taken[order]] for name in self.rows}
        found[f"{prefix}row"] = np.argsort(order)[row]
        width = int(self.held.max(initial=0))
        kept = np.arange(width)[:, None] < self.held
        for name in self._held:
            array = getattr(self, name)[:width]
            found[prefix + name] = np.where(kept.reshape(*kept.shape, *(1,) * (array.ndim - 2)), array, 0.0)
        return found

    def _share(self, agent: int, prefix: str) -> State:
        found = super()._share(agent, prefix)
        held = int(self.held[agent])
        return found | {prefix + name: getattr(self, name)[:held, agent : agent + 1] for name in self._held}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        most = int(state[f"{prefix}held"].max(initial=0))
        lengths = {len(state[prefix + name]) for name in self._held}
        room = lengths.pop() if len(lengths) == 1 else most
        if most > room:
            raise ValueError(f"the snapshot's {prefix}held exceeds the room of {prefix}points")
        for name in self._held:
            given, needed = state[prefix + name].shape, (room, *getattr(self, name).shape[1:])
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")
        super()._check_grown(state, prefix)

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self.refresh()

    # within

    def _known(self) -> Resting:
        if len(self._weights) < len(self.points):
            self._vectors, self._weights = np.empty((len(self.points), self.dim)), np.empty(len(self.points))
        known = self.inverted, self.estimate, self.row, self.points, self.rewards, self.held
        return Resting(*known, self._vectors, self._weights)

    def _knowledge(self) -> tuple[FloatArray, FloatArray]:
        """V^-1 (n, d, d) and estimates (n, d)."""
        inverse, theta = np.empty((len(self), self.dim, self.dim)), np.empty((len(self), self.dim))
        knowledge_shared(self._known(), inverse, theta, self._last)
        return inverse, theta

    def _news(self, who: IntArray) -> Statistics:
        found = self._summed(who, self.news, self.news_moment, self.handed, self.held)
        found.count[:] = self.seen[who]
        return found

    def _summed(
        self, who: IntArray, gram: FloatArray, moment: FloatArray, first: IntArray, end: IntArray
    ) -> Statistics:
        """Of each of `who` what its row of `gram` and `moment` says, and its observations `first` to `end` (n,)."""
        found = Statistics(0, self.dim)
        found.gram, found.moment, found.count = gram[self.row[who]], moment[self.row[who]], np.zeros(len(who))
        self._sum_up(who, first[who], end[who], np.arange(len(who)), found.gram, found.moment)
        return found

    def _sum_up(
        self, who: IntArray, first: IntArray, end: IntArray, into: IntArray, gram: FloatArray, moment: FloatArray
    ) -> None:
        """Add the observations `first` to `end` (w,) of `who` to the rows `into` (w,) of sums."""
        sums_of_points(self.points, self.rewards, first, end, who, into, gram, moment, self._last)

    def _claim_together(self, who: IntArray) -> None:
        """One row for `who` and nobody else."""
        if len(who) < len(self.row):
            self.claim(who, copied=False)
            return
        self.row[:] = 0
        for name in self.rows:
            setattr(self, name, getattr(self, name)[:1].copy())

    def _forget_news(self, rows: IntArray) -> None:
        self.news[rows], self.news_moment[rows], self.news_count[rows] = 0.0, 0.0, 0.0

    def _fold(self, who: IntArray) -> None:
        """Let `who` know in rows of their own what they hold: what was handed over, or, if there is none, the rest.

        So it depends on the number of observations since alone what is multiplied out, and in which portions.
        """
        self.claim_each(who)
        rows, handed = self.row[who], self.handed[who]
        old = handed > 0
        count, nothing = np.where(old, handed, self.held[who]), np.zeros_like(handed)
        self._sum_up(who[old], nothing[old], count[old], rows[old], self.gram, self.moment)
        self._sum_up(who[~old], nothing[~old], count[~old], rows[~old], self.news, self.news_moment)
        fold_shared(self._known(), who, count, self._last)
        self.news_count[rows] += np.where(old, 0, count)
        self.volume[rows] = np.where(old, self.logdet[who] - self.growth[who], self.logdet[who])
        self.updates[rows] += count
        self.handed[who] = 0
        worn = (self.updates[rows] >= REFRESH_EVERY) & (self.held[who] == 0)
        if worn.any():
            self._factorise(who[worn])

    def _fold_all(self, who: IntArray) -> None:
        """Let `who` know in rows of their own all that they hold."""
        self._fold(who)
        self._fold(who[self.held[who] > 0])

    def _factorise(self, who: IntArray) -> None:
        """Compute anew what those know who have a row of their own, and hold nothing."""
        rows = self.row[who]
        gram, moment = self.gram[rows] + self.news[rows], self.moment[rows] + self.news_moment[rows]
        self.inverted[rows], self.estimate[rows], self.volume[rows] = solve(gram, moment, self.ridge)
        self.logdet[who] = self.volume[rows]
        self.updates[rows] = 0
