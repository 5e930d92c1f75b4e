"""Ridge regressions on what a server tells and a little of one's own: what was told alike is computed once.

As `models.ridge`, for large d and frequent rounds. Two things are saved. Agents that were told the same statistics
share one inverse. And statistics that grew by few observations are recognised by the low rank of the difference, so
that their inverse follows from the last one in O(k d^2) (`linalg.low_rank`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit
from fedbandits.linalg.low_rank import add_to_inverse, factor_of_difference, follow, write_square
from fedbandits.linalg.recycled import Recycled, is_sealed, read_only
from fedbandits.linalg.semidefinite import nearest_semidefinite
from fedbandits.linalg.totals import total_with_squares
from fedbandits.models.ridge import REFRESH_EVERY, solve
from fedbandits.models.shared_rows import SharedRows
from fedbandits.models.statistics import Statistics

ROUNDS = 128
"""Rounds after which an inverse is computed anew: each difference of sums is known up to the rounding of these."""

PATIENCE = 8
"""How many observations wait at most."""

_SHARE = 8
"""A difference is worth an update if its rank is at most d over this number; factorising takes as long as a few."""

_ROUNDING = 1e-12


class PooledModels(SharedRows):
    """n ridge regressions, each resting on `gram`, `moment` and `count` as told, plus own observations.

    Rows, of which several agents may have one: `gram` (m, d, d), `moment` (m, d) and `count` (m,), what was settled;
    `inverse` (m, d, d) = V^-1, `theta` (m, d), `logdet` (m,) = log det V, V being settled plus `fresh` plus lambda I.

    Own observations go to `fresh`, (n, d, d), and are known in a row of the agent's own. Before that some wait, the
    first `held` (n,) of `waiting` (n, PATIENCE, d) and `rewards`: while something that was handed over is `unanswered`
    (n,), and always if they are `patient`, since whoever is told everything after each turn never needs them in an
    inverse of its own. The first `settled` (n,) of them were handed over. `growth` (n,) is that of log det V by
    `fresh`.
    """

    rows: ClassVar[tuple[str, ...]] = ("gram", "moment", "count", "inverse", "theta", "logdet", "updates", "rounds")
    keeps: ClassVar[tuple[str, ...]] = (
        "row",
        *rows,
        "fresh",
        "waiting",
        "rewards",
        "held",
        "settled",
        "growth",
        "unanswered",
    )
    resizes: ClassVar[frozenset[str]] = frozenset(rows)

    def __init__(self, n: int, dim: int, ridge: float, *, patient: bool = False) -> None:
        super().__init__(n)
        self.ridge = ridge
        self.gram, self.inverse = kernels.aligned((1, dim, dim)), kernels.aligned((1, dim, dim))
        self.inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / ridge
        self.moment, self.theta, self.count = np.zeros((1, dim)), np.zeros((1, dim)), np.zeros(1)
        self.logdet = np.full(1, dim * np.log(ridge))
        self.updates, self.rounds = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.fresh = Statistics(n, dim)
        self.waiting, self.rewards = np.zeros((n, PATIENCE, dim)), np.zeros((n, PATIENCE))
        self.held, self.settled = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.growth, self.unanswered = np.zeros(n), np.zeros(n, dtype=np.bool_)
        self._patient = patient
        self._letters = Recycled()

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.theta.shape[1]

    @property
    def since(self) -> FloatArray:
        """(n,) own observations since the last that were handed over."""
        return np.asarray(self.fresh.count + self.held - self.settled)

    def waits(self, who: IntArray) -> bool:
        """Whether anybody in `who` has observed something that is in no inverse yet."""
        return _any_of(self.held, who)

    def scores(self, who: IntArray, arms: FloatArray, width: float) -> FloatArray:
        """(w, K) <theta, x> + width sqrt(x^T V^-1 x) of `arms` (w, K, d), over all that each agent knows."""
        lanes, widths = kernels.as_lanes(arms), np.full(len(who), width)
        rows = self.row[who]
        if not self.waits(who):
            return kernels.scores_optimistic(self.inverse, self.theta, widths, rows, lanes)
        inverse, theta, logdet = self.inverse[rows], self.theta[rows], self.logdet[rows]
        for number in range(self.held[who].max()):
            some = np.flatnonzero(self.held[who] > number)
            x, y = self.waiting[who[some], number], self.rewards[who[some], number]
            kernels.rank_one(inverse, theta, logdet, some, x, y)
        return kernels.scores_optimistic(inverse, theta, widths, np.arange(len(who)), lanes)

    def diagonals(self) -> tuple[FloatArray, FloatArray]:
        """(n, d) the diagonals of what was settled and of what is fresh, without lambda."""
        base = np.einsum("mdd->md", self.gram)[self.row]
        fresh = np.einsum("ndd->nd", self.fresh.gram).copy()
        for number in range(self.held.max()):
            square = self.waiting[:, number] ** 2
            base += np.where(number < self.settled, 1.0, 0.0)[:, None] * square
            fresh += np.where((self.settled <= number) & (number < self.held), 1.0, 0.0)[:, None] * square
        return base, fresh

    def stirred(self) -> BoolArray:
        """(n,) who has observed anything but nothing, x = 0, since the last that was handed over."""
        found, rested = _stirred(self.fresh.count, self.waiting, self.settled, self.held)
        return found if rested else np.asarray(self.diagonals()[1].any(axis=1))

    def learn_chosen(self, who: IntArray, x: FloatArray, rewards: FloatArray) -> None:
        """Take in one observation per agent: chosen arms (w, d)."""
        most = _hold(self.waiting, self.rewards, self.held, who, np.ascontiguousarray(x), rewards)
        if self._patient and most < PATIENCE:
            return
        waits = (self.unanswered[who] | self._patient) & (self.held[who] < PATIENCE)
        if not waits.all():
            self._fold(who[~waits])

    def handed(self, who: IntArray) -> dict[str, FloatArray]:
        """What is new, as messages carry it; counts as settled from here on."""
        if _have_one(self.fresh.count, self.held, self.settled, who):  # after every turn
            shape = (len(who), self.dim)
            gram, moment, count = self._letters.empty((*shape, self.dim)), np.empty(shape), np.ones(len(who))
            _hand_one(self.waiting, self.rewards, self.settled, self.growth, self.unanswered, who, gram, moment)
            return {"gram": gram, "moment": moment, "count": count}
        waiting = self.held[who] - self.settled[who]
        own = np.flatnonzero(self.fresh.count[who])
        gram, moment, count = (array[who] for array in self.fresh)
        for number in range(waiting.max(initial=0)):
            some = np.flatnonzero(waiting > number)
            agents = who[some]
            place = self.settled[agents] + number
            kernels.accumulate(gram, moment, count, some, self.waiting[agents, place], self.rewards[agents, place])
        if len(own):
            self._unseal()
        for agent in who[own]:
            row = self.claim(np.array([agent]), copied=True)
            self.gram[row] += self.fresh.gram[agent]
            self.moment[row] += self.fresh.moment[agent]
            self.count[row] += self.fresh.count[agent]
        if len(own):
            self.fresh.clear(who[own])
        self.growth[who] = 0.0
        self.settled[who], self.unanswered[who] = self.held[who], True
        return {"gram": gram, "moment": moment, "count": count}

    def handed_to(self, before: FloatArray, total: FloatArray, who: IntArray) -> dict[str, FloatArray] | None:
        """As `handed`, where the sum of what everybody hands over is all that is wanted of matrices: it is written to
        `total` (d, d), with what was there `before` (d, d). None where not each of all agents, in order, has one
        observation to hand over; nothing has changed then.
        """
        if len(who) != len(self.row) or not _are_in_order(who):
            return None
        if not _have_one(self.fresh.count, self.held, self.settled, who):
            return None
        shape = (len(who), self.dim)
        x, moment, count = np.empty(shape), np.empty(shape), np.ones(len(who))
        _take_one(self.waiting, self.rewards, self.settled, self.growth, self.unanswered, x, moment)
        total_with_squares(before, x, total)
        return {"moment": moment, "count": count}

    def unsettle(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """What was handed over was lost: it is new again. See `RidgeModels.unsettle`."""
        self.unanswered[who] = False
        self._unseal()
        for place, agent in enumerate(who):
            if self.settled[agent] == count[place]:
                self.settled[agent] = 0
                continue
            one = np.array([agent])
            self._fold(one)
            row = self.claim(one, copied=True)
            left = self.gram[row] - gram[place]
            rounding = np.minimum(_ROUNDING * np.trace(self.gram[row]), self.ridge / 2)
            kept = nearest_semidefinite(left[None], np.array([rounding]))
            settled = kernels.log_determinants(kept, self.ridge)[0]
            self.gram[row] = kept[0]
            self.moment[row] -= moment[place]
            self.count[row] -= count[place]
            self.fresh.merge(one, gram[place], moment[place], count[place])
            if (kept[0] != left).any():
                self._factorise(one)
            self.growth[agent] = self.logdet[row] - settled if self.fresh.count[agent] else 0.0

    def replace(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Let the given statistics be what was settled; own observations since stay on top.

        What is told to all alike arrives as one row shown w times (stride 0), and is computed once for those who knew
        the same before.
        """
        # everything is computed before anything is written, so that bad statistics change nothing
        alike = gram.strides[0] == 0 and moment.strides[0] == 0
        if alike and self._all_follow(who, gram[0], moment[0], count):
            self._forget(who)
            return
        anew: list[IntArray] = []
        grown: list[tuple[IntArray, FloatArray]] = []
        for some in _groups(self.row[who]) if alike else np.arange(len(who))[:, None]:
            factor = self._factor(who[some[0]], gram[some[0]], moment[some[0]])
            if factor is not None:
                grown.append((some, factor))
            elif alike and anew and not self.fresh.count[who[some[0]]] and not self.fresh.count[who[anew[-1][0]]]:
                anew[-1] = np.concatenate([anew[-1], some])
            else:
                anew.append(some)
        solved = [self._solved(who[some[0]], gram[some[0]], moment[some[0]]) for some in anew]
        for some, factor in grown:
            row = self._settle(who[some], gram[some[0]], moment[some[0]], count[some[0]])
            self.logdet[row] += add_to_inverse(self.inverse[row], factor, moment[some[0]], self.theta[row])
            self.rounds[row] += 1
        for some, known in zip(anew, solved, strict=True):
            row = self._settle(who[some], gram[some[0]], moment[some[0]], count[some[0]])
            self.inverse[row], self.theta[row], self.logdet[row], self.growth[who[some]] = known
            self.updates[row] = self.rounds[row] = 0
        self._forget(who)
        if not self._patient and self.held[who].any():
            self._fold(who[self.held[who] > 0])

    def _all_follow(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> bool:
        """Whether all are told the same who knew the same, and wait: their inverse has followed then, in one piece."""
        if not self._patient or len(self.gram) > 1 or len(who) < len(self.row):
            return False
        if self.rounds[0] >= ROUNDS or self.fresh.count[0]:
            return False
        grown = follow(self.gram[0], gram, max(1, self.dim // _SHARE), self.inverse[0], moment, self.theta[0])
        if grown is None:
            return False
        self._settle(who, gram, moment, count[0])
        self.logdet[0] += grown
        self.rounds[0] += 1
        return True

    def _factor(self, agent: int, gram: FloatArray, moment: FloatArray) -> FloatArray | None:
        """(k, d) of the difference to what was settled, if an inverse can follow it."""
        row = self.row[agent]
        if self.fresh.count[agent] or self.rounds[row] >= ROUNDS or not _are_numbers(read_only(moment)):
            return None
        return factor_of_difference(self.gram[row], gram, max(1, self.dim // _SHARE))

    def _solved(self, agent: int, gram: FloatArray, moment: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
        """V^-1, theta and log det V of `gram` and what is fresh, and how much of the latter is due to that."""
        inverse, theta, logdet = solve(
            (gram + self.fresh.gram[agent])[None], (moment + self.fresh.moment[agent])[None], self.ridge
        )
        fresh = self.fresh.count[agent] > 0
        settled = kernels.log_determinants(np.array(gram[None]), self.ridge)[0] if fresh else logdet[0]
        return inverse[0], theta[0], logdet[0], logdet[0] - settled

    def _settle(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: float) -> int:
        """One row for `who`, in which this is settled."""
        if len(self.gram) == 1 and len(who) == len(self.row) and is_sealed(gram):
            row, self.gram = 0, gram[None]
        else:
            self._unseal()
            row = self.claim(who, copied=True)
            self.gram[row] = gram
        self.moment[row], self.count[row] = moment, count
        return row

    def _unseal(self) -> None:
        """Sums that were told as they are become sums that can be added to."""
        if not self.gram.flags.writeable:
            self.gram = self.gram.copy()

    def _forget(self, who: IntArray) -> None:
        """What waited and was settled is in what was told."""
        self.unanswered[who] = False
        _drop(self.waiting, self.rewards, self.held, self.settled, who)

    def _clear(self, who: IntArray) -> None:
        """Nothing waits."""
        most = self.held[who].max(initial=0)
        self.waiting[who, :most], self.rewards[who, :most] = 0.0, 0.0
        self.held[who] = self.settled[who] = 0

    def _fold(self, who: IntArray) -> None:
        """Let `who` know in a row of their own what waits."""
        self._unseal()
        shared = np.bincount(self.row)[self.row[who]] > 1
        for agent in who[shared]:
            self.claim(np.array([agent]), copied=True)
        for number in range(self.held[who].max()):
            some = who[self.held[who] > number]
            x, y, rows = self.waiting[some, number], self.rewards[some, number], self.row[some]
            gain = kernels.rank_one(self.inverse, self.theta, self.logdet, rows, x, y)
            new = self.settled[some] <= number
            self.growth[some] += np.where(new, gain, 0.0)
            kernels.accumulate(self.gram, self.moment, self.count, rows[~new], x[~new], y[~new])
            fresh = self.fresh
            kernels.accumulate(fresh.gram, fresh.moment, fresh.count, some[new], x[new], y[new])
            self.updates[rows] += 1
        self._clear(who)
        worn = who[self.updates[self.row[who]] >= REFRESH_EVERY]
        if len(worn):
            self._factorise(worn)

    def _factorise(self, who: IntArray) -> None:
        """Compute anew what those know who have a row of their own."""
        rows = self.row[who]
        gram, moment = self.gram[rows] + self.fresh.gram[who], self.moment[rows] + self.fresh.moment[who]
        self.inverse[rows], self.theta[rows], self.logdet[rows] = solve(gram, moment, self.ridge)
        self.updates[rows] = self.rounds[rows] = 0


@jit
def _hold(waiting: FloatArray, rewards: FloatArray, held: IntArray, who: IntArray, x: FloatArray, y: FloatArray) -> int:
    """Let one observation wait for each of `who`; the largest number that waits."""
    most = 0
    for a in range(len(who)):
        i = who[a]
        waiting[i, held[i]], rewards[i, held[i]] = x[a], y[a]
        held[i] += 1
        most = max(most, held[i])
    return most


@jit
def _have_one(fresh: FloatArray, held: IntArray, settled: IntArray, who: IntArray) -> bool:
    """Whether each of `who` has one observation to hand over, which waits."""
    found = True
    for i in who:
        found &= fresh[i] == 0.0 and held[i] - settled[i] == 1
    return found


@jit
def _hand_one(
    waiting: FloatArray,
    rewards: FloatArray,
    settled: IntArray,
    growth: FloatArray,
    unanswered: BoolArray,
    who: IntArray,
    gram: FloatArray,
    moment: FloatArray,
) -> None:
    """Write x x^T to `gram` (w, d, d) and y x to `moment` (w, d) of the one observation of each that counts as settled
    from here on.
    """
    for a in range(len(who)):
        i = who[a]
        x, y = waiting[i, settled[i]], rewards[i, settled[i]]
        write_square(x, gram[a])
        for j in range(len(x)):
            moment[a, j] = y * x[j]
        settled[i] += 1
        growth[i], unanswered[i] = 0.0, True


@jit
def _take_one(
    waiting: FloatArray,
    rewards: FloatArray,
    settled: IntArray,
    growth: FloatArray,
    unanswered: BoolArray,
    points: FloatArray,
    moment: FloatArray,
) -> None:
    """As `_hand_one`, for everybody, who write the observation itself to `points` (n, d)."""
    for i in range(len(points)):
        x, y = waiting[i, settled[i]], rewards[i, settled[i]]
        for j in range(len(x)):
            points[i, j], moment[i, j] = x[j], y * x[j]
        settled[i] += 1
        growth[i], unanswered[i] = 0.0, True


@jit
def _are_in_order(who: IntArray) -> bool:
    found = True
    for a in range(len(who)):
        found &= who[a] == a
    return found


@jit
def _drop(waiting: FloatArray, rewards: FloatArray, held: IntArray, settled: IntArray, who: IntArray) -> None:
    """Of what waits keep what was not settled, which an agent has observed since."""
    for a in range(len(who)):
        i = who[a]
        first, last = settled[i], held[i]
        for k in range(last):
            later = k + first < last
            for j in range(waiting.shape[2]):
                waiting[i, k, j] = waiting[i, k + first, j] if later else 0.0
            rewards[i, k] = rewards[i, k + first] if later else 0.0
        held[i], settled[i] = last - first, 0


@jit
def _stirred(fresh: FloatArray, waiting: FloatArray, settled: IntArray, held: IntArray) -> tuple[BoolArray, bool]:
    """(n,) of whom something other than 0 waits that is not settled; and whether nobody has anything else."""
    found, rested = np.zeros(len(held), np.bool_), True
    for i in range(len(held)):
        rested &= fresh[i] == 0.0
        for k in range(settled[i], held[i]):
            for j in range(waiting.shape[2]):
                if waiting[i, k, j] != 0.0:
                    found[i] = True
                    break
    return found, rested


@jit
def _any_of(held: IntArray, who: IntArray) -> bool:
    found = False
    for i in who:
        found |= held[i] != 0
    return found


@jit
def _are_numbers(values: FloatArray) -> bool:
    found = True
    for value in values:
        found &= abs(value) < np.inf
    return found


@jit
def _are_equal(rows: IntArray) -> bool:
    found = True
    for row in rows:
        found &= row == rows[0]
    return found


def _groups(rows: IntArray) -> list[IntArray]:
    """Places of equal numbers, for each number."""
    if _are_equal(rows):
        return [np.arange(len(rows))]
    return [np.flatnonzero(rows == row) for row in np.unique(rows)]
