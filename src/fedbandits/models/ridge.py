"""Ridge regressions of a whole population, and the sufficient statistics they rest on.

For observations (x_s, y_s): gram A = sum x x^T, moment b = sum y x, count m, all without the ridge term, so
that statistics of different agents are merged by addition. With ridge lambda: V = A + lambda I and
theta = V^-1 b.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.leaning import leaning
from fedbandits.linalg.recycled import Recycled
from fedbandits.linalg.semidefinite import nearest_semidefinite
from fedbandits.linalg.simd import address, target
from fedbandits.models.statistics import Statistics

REFRESH_EVERY = 2048
"""Rank-one updates after which an agent's inverse is computed anew from its statistics. Measured drift after
10^4 updates without any refresh is near 1e-12 for well-conditioned arms; refreshing bounds it for all others."""

ROUNDING = 1e-12
"""As which share of the trace negative eigenvalues may come from rounding, where a part was taken out of sums."""


class RidgeArrays(NamedTuple):
    """What `RidgeModels` learn into, for compiled loops."""

    inverse: FloatArray
    theta: FloatArray
    logdet: FloatArray
    growth: FloatArray
    updates: IntArray
    settled: FloatArray
    """(n,) observations in `base`."""
    gram: FloatArray
    moment: FloatArray
    seen: FloatArray
    """Of `fresh`, the last being the number of observations (n,)."""


@jit_inside
def learn_one(
    models: RidgeArrays, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    """What `RidgeModels.learn` does for agent i, which has taken the arm `pick` of `arms[row]` (d, K); whether it is
    time to `refresh`.
    """
    gain = kernels.observe_one(
        models.inverse,
        models.theta,
        models.logdet,
        models.gram,
        models.moment,
        models.seen,
        i,
        arms,
        row,
        pick,
        reward,
        room,
    )
    models.growth[i] += gain
    models.updates[i] += 1
    return bool(models.updates[i] >= REFRESH_EVERY)


class RidgeModels(Stateful):
    """n ridge regressions, each resting on `base` (what was settled) plus `fresh` (own observations since).

    Kept up to date at every change: `inverse` (n, d, d) = V^-1, `theta` (n, d), `logdet` (n,) = log det V, and
    `growth` (n,) = log det(base + fresh + lambda I) - log det(base + lambda I), the quantity event triggers
    watch. Memory per agent: 3 d^2 + O(d) numbers. Numerics: Sherman-Morrison for single observations, Cholesky
    whenever statistics arrive in bulk and after every `REFRESH_EVERY` single ones.
    """

    keeps: ClassVar[tuple[str, ...]] = ("base", "fresh", "inverse", "theta", "logdet", "growth", "updates")

    def __init__(self, n: int, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self.base = Statistics(n, dim)
        self.fresh = Statistics(n, dim)
        self.inverse = kernels.aligned((n, dim, dim))
        self.inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / ridge
        self.theta = np.zeros((n, dim))
        self.logdet = np.full(n, dim * np.log(ridge))
        self.growth = np.zeros(n)
        self.updates = np.zeros(n, dtype=np.int64)
        self._letters, self._results = Recycled(), Recycled()

    def __len__(self) -> int:
        return len(self.logdet)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.theta.shape[1]

    def matrices(self, who: IntArray | slice = slice(None)) -> FloatArray:
        """(w, d, d) V = base + fresh + lambda I, of everybody or of `who`."""
        return np.asarray(self.base.gram[who] + self.fresh.gram[who] + self.ridge * np.eye(self.dim))

    @property
    def since(self) -> FloatArray:
        """(n,) own observations since the last that were settled."""
        return self.fresh.count

    def observed(self, who: IntArray) -> FloatArray:
        """(w,) on how many observations each regression rests."""
        return np.asarray(self.base.count[who] + self.fresh.count[who])

    def scores(self, who: IntArray, arms: FloatArray, width: FloatArray) -> FloatArray:
        """(w, K) <theta, x> + width sqrt(x^T V^-1 x)."""
        return kernels.scores_optimistic(self.inverse, self.theta, width, who, kernels.as_lanes(arms))

    def leaning(self, who: IntArray, arms: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) what `scores` says up to rounding, and (w, K, d) theta + width V^-1 x / sqrt(x^T V^-1 x): where in its
        ellipsoid an agent would have to be right for that to be true. Theta itself at 0.
        """
        return leaning(self.inverse, self.theta, width, who, np.ascontiguousarray(arms))

    def choose(self, who: IntArray, arms: FloatArray, width: FloatArray) -> IntArray:
        """(w,) the arm of each agent that maximises <theta, x> + width sqrt(x^T V^-1 x)."""
        lanes = kernels.as_lanes(arms)
        return kernels.pick_optimistic(self.inverse, self.theta, width, who, lanes)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> FloatArray:
        """Take in one observation per agent, into `fresh`; returns (w,) by how much each log det V has grown."""
        gain = kernels.observe(
            self.inverse,
            self.theta,
            self.logdet,
            self.fresh.gram,
            self.fresh.moment,
            self.fresh.count,
            who,
            kernels.as_lanes(arms),
            picks,
            rewards,
        )
        if _advance(self.growth, self.updates, who, gain) >= REFRESH_EVERY:
            self._factorise(who[self.updates[who] >= REFRESH_EVERY])
        return gain

    def arrays(self) -> RidgeArrays:
        """What compiled loops learn into, by reference."""
        base, fresh = self.base, self.fresh
        return RidgeArrays(self.inverse, self.theta, self.logdet, self.growth, self.updates, base.count, *fresh)

    def refresh(self) -> None:
        """Compute anew what has gone through enough single updates."""
        if self.updates.max() >= REFRESH_EVERY:
            self._factorise(np.flatnonzero(self.updates >= REFRESH_EVERY))

    def learn_chosen(self, who: IntArray, x: FloatArray, rewards: FloatArray) -> FloatArray:
        """As `learn`, from the chosen arms (w, d) alone."""
        return self.learn(who, x[:, None], np.zeros(len(who), dtype=np.int64), rewards)

    def settle(self, who: IntArray) -> None:
        """Move `fresh` into `base`: nothing known changes, but growth is measured from here."""
        self.hand_over(who)

    def hand_over(self, who: IntArray) -> RidgeSums:
        """`settle`; returns what was fresh of `who` until then, as a message may carry it."""
        base, fresh, d = self.base, self.fresh, self.dim
        handed = RidgeSums(self._letters.empty((len(who), d, d)), np.empty((len(who), d)), np.empty(len(who)))
        _settle(RidgeSums(*base), RidgeSums(*fresh), who, self.growth, handed)
        return handed

    def sharers(self, *, counted: bool) -> Sharers:
        """These models for compiled conversations, by reference."""
        results = RidgeResults(self.inverse, self.theta, self.logdet, self.growth)
        return Sharers(RidgeSums(*self.base), RidgeSums(*self.fresh), results, self.updates, self.ridge, counted)

    def unsettle(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Move the given part of `base` back into `fresh`: nothing known changes, but growth is measured from before it
        was settled.

        If what is taken out of `base` is more than it had in some direction, as statistics may be that were rounded on
        their way, `base` keeps nothing there.
        """
        left = self.base.gram[who] - gram
        rounding = np.minimum(ROUNDING * np.trace(self.base.gram[who], axis1=1, axis2=2), self.ridge / 2)
        kept = nearest_semidefinite(left, rounding)
        settled = kernels.log_determinants(_own(kept), self.ridge)  # raises before anything is written
        self.base.gram[who] = kept
        self.base.moment[who] -= moment
        self.base.count[who] -= count
        self.fresh.merge(who, gram, moment, count)
        mended = (kept != left).any(axis=(1, 2))
        if mended.any():
            self._factorise(who[mended])
        self.growth[who] = np.where(self.fresh.count[who] > 0, self.logdet[who] - settled, 0.0)

    def replace(
        self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray, *, alone: bool = False
    ) -> None:
        """Let `base` be the given statistics. `fresh`, what was observed since settling, stays on top; unless they are
        to stand `alone`.
        """
        self._rebase(who, gram, moment, count, adding=False, alone=alone)

    def absorb(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Add the given statistics to `base`, keeping `fresh`."""
        self._rebase(who, gram, moment, count, adding=True, alone=False)

    def _rebase(
        self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray, *, adding: bool, alone: bool
    ) -> None:
        """Replace `base`, or add to it. What is told to everybody arrives as one row shown w times (stride 0)."""
        if len(gram) != len(who) or len(moment) != len(who):
            raise ValueError(f"one set of statistics is needed for each of {len(who)} models")
        if len(gram) > 1 and gram.strides[0] == 0 and moment.strides[0] == 0:
            gram, moment = gram[:1], moment[:1]
        given = RidgeSums(_own(gram), _own(moment), np.array(count, dtype=np.float64))
        d = self.dim
        known = RidgeResults(
            self._results.empty((len(who), d, d)), np.empty((len(who), d)), np.empty(len(who)), np.empty(len(who))
        )
        source = np.arange(len(who))
        base, fresh = RidgeSums(*self.base), RidgeSums(*self.fresh)
        # everything is computed before anything is written, so that bad statistics change nothing
        failed = _solve_anew(base, fresh, given, who, self.ridge, adding, alone, known, source)
        if failed >= 0:
            raise ValueError(f"row {failed}: gram + ridge I is not positive definite, or not finite")
        results = RidgeResults(self.inverse, self.theta, self.logdet, self.growth)
        _write_anew(base, fresh, given, who, adding, alone, known, source, results, self.updates)

    def recompute(self) -> None:
        """Compute everything anew from the statistics, after they were changed from outside."""
        self._factorise(np.arange(len(self)))
        self.growth[:] = np.where(
            self.fresh.count > 0, self.logdet - kernels.log_determinants(self.base.gram, self.ridge), 0.0
        )

    def _factorise(self, who: IntArray) -> None:
        gram = self.base.gram[who] + self.fresh.gram[who]
        moment = self.base.moment[who] + self.fresh.moment[who]
        self.inverse[who], self.theta[who], self.logdet[who] = solve(gram, moment, self.ridge)
        self.updates[who] = 0


class RidgeSums(NamedTuple):
    """Sums of m models, for compiled functions: gram (m, d, d), moment (m, d), and how many observations (m,)."""

    gram: FloatArray
    moment: FloatArray
    seen: FloatArray

    def named(self, *, counted: bool) -> dict[str, FloatArray]:
        """By name, as a message carries them; counts only where asked for."""
        named = {"gram": self.gram, "moment": self.moment}
        return named | ({"count": self.seen} if counted else {})


class RidgeResults(NamedTuple):
    """What follows from the sums of m models: inverse (m, d, d), theta (m, d), logdet (m,), growth (m,)."""

    inverse: FloatArray
    theta: FloatArray
    logdet: FloatArray
    growth: FloatArray


@jit
def _settle(base: RidgeSums, fresh: RidgeSums, who: IntArray, growth: FloatArray, handed: RidgeSums) -> None:
    """One pass over the rows of `who`: copy what is fresh to `handed`, add it to `base`, clear it."""
    base, fresh, handed = borrowed(base), borrowed(fresh), borrowed(handed)
    kernels.check_who(len(growth), who)
    d = fresh.moment.shape[1]
    for a in range(len(who)):
        i = who[a]
        for j in range(d):
            for k in range(d):
                new = fresh.gram[i, j, k]
                handed.gram[a, j, k] = new
                base.gram[i, j, k] += new
                fresh.gram[i, j, k] = 0.0
            handed.moment[a, j] = fresh.moment[i, j]
            base.moment[i, j] += fresh.moment[i, j]
            fresh.moment[i, j] = 0.0
        handed.seen[a] = fresh.seen[i]
        base.seen[i] += fresh.seen[i]
        fresh.seen[i] = 0.0
        growth[i] = 0.0


@jit
def _solve_anew(
    base: RidgeSums,
    fresh: RidgeSums,
    given: RidgeSums,
    who: IntArray,
    ridge: float,
    adding: bool,
    alone: bool,
    known: RidgeResults,
    source: IntArray,
) -> int:
    """What `who` would know with `given` in place of `base`, or added to it. `source` (w,) names the row of `known`
    that holds for each: those who are told the same and have nothing of their own are computed once. Returns the first
    that cannot be, or -1.
    """
    base, fresh, given, known = borrowed(base), borrowed(fresh), borrowed(given), borrowed(known)
    kernels.check_who(len(base.seen), who)
    d = fresh.moment.shape[1]
    pitch = kernels.pitch_of(d)
    room = (np.zeros(d * pitch), np.zeros(d * pitch), np.zeros(2 * pitch))
    sums = (np.empty((d, d)), np.empty(d))
    return _solve_into(base, fresh, given, who, ridge, adding, alone, known, source, *room, *sums)


@jit_part
def _solve_into(
    base: RidgeSums,
    fresh: RidgeSums,
    given: RidgeSums,
    who: IntArray,
    ridge: float,
    adding: bool,
    alone: bool,
    known: RidgeResults,
    source: IntArray,
    upper: FloatArray,
    lower: FloatArray,
    work: FloatArray,
    gram: FloatArray,
    moment: FloatArray,
) -> int:
    d = len(moment)
    u, w, s = target(upper, 0), target(lower, 0), target(work, 0)
    shared = len(given.moment) < len(who)
    once, told_once, settled = -1, False, 0.0
    for a in range(len(who)):
        i = who[a]
        row = 0 if shared else a
        own = not alone and fresh.seen[i] > 0.0
        if shared and not adding and not own:
            if once >= 0:
                source[a] = once
                continue
            once = a
        for j in range(d):
            for k in range(d):
                gram[j, k] = base.gram[i, j, k] + given.gram[row, j, k] if adding else given.gram[row, j, k]
            moment[j] = base.moment[i, j] + given.moment[row, j] if adding else given.moment[row, j]
        known.growth[a] = 0.0
        if own and not (told_once and shared and not adding):
            settled = kernels.logdet_one(address(gram, 0), ridge, d, u, s)
            told_once = True
        if own:
            for j in range(d):
                for k in range(d):
                    gram[j, k] += fresh.gram[i, j, k]
                moment[j] += fresh.moment[i, j]
        inverse, theta = target(known.inverse, a * d * d), target(known.theta, a * d)
        logdet = kernels.factorise_one(address(gram, 0), address(moment, 0), ridge, d, u, w, s, inverse, theta)
        if not (abs(logdet) < np.inf and abs(settled) < np.inf):
            return a
        known.logdet[a] = logdet
        if own:
            known.growth[a] = logdet - settled
    return -1


@jit
def _write_anew(
    base: RidgeSums,
    fresh: RidgeSums,
    given: RidgeSums,
    who: IntArray,
    adding: bool,
    alone: bool,
    known: RidgeResults,
    source: IntArray,
    results: RidgeResults,
    updates: IntArray,
) -> None:
    base, fresh, given = borrowed(base), borrowed(fresh), borrowed(given)
    known, results = borrowed(known), borrowed(results)
    d = fresh.moment.shape[1]
    shared = len(given.moment) < len(who)
    for a in range(len(who)):
        i, row, found = who[a], 0 if shared else a, source[a]
        for j in range(d):
            for k in range(d):
                more = given.gram[row, j, k]
                base.gram[i, j, k] = base.gram[i, j, k] + more if adding else more
                results.inverse[i, j, k] = known.inverse[found, j, k]
            more = given.moment[row, j]
            base.moment[i, j] = base.moment[i, j] + more if adding else more
            results.theta[i, j] = known.theta[found, j]
            if alone:
                fresh.gram[i, j] = 0.0
                fresh.moment[i, j] = 0.0
        base.seen[i] = base.seen[i] + given.seen[a] if adding else given.seen[a]
        if alone:
            fresh.seen[i] = 0.0
        results.logdet[i] = known.logdet[found]
        results.growth[i] = known.growth[found]
        updates[i] = 0


class Sharers(NamedTuple):
    """`RidgeModels` whose agents hand over what is fresh and take in what they are told, for compiled conversations."""

    base: RidgeSums
    fresh: RidgeSums
    results: RidgeResults
    updates: IntArray
    ridge: float
    counted: bool
    """Whether counts travel."""


class Workspace(NamedTuple):
    """Room for factorising one model of dimension d, with rows of `kernels.pitch_of(d)`."""

    upper: FloatArray
    lower: FloatArray
    work: FloatArray
    gram: FloatArray
    moment: FloatArray


def workspace(d: int) -> Workspace:
    """Room for models of dimension d."""
    pitch = int(kernels.pitch_of(d))
    return Workspace(
        kernels.aligned((d * pitch,)),
        kernels.aligned((d * pitch,)),
        kernels.aligned((2 * pitch,)),
        kernels.aligned((d, d)),
        np.zeros(d),
    )


@jit_part
def solve_shared(gram: FloatArray, moment: FloatArray, ridge: float, room: Workspace, known: RidgeResults) -> bool:
    """What follows from row 0 of the given sums, written to row 0 of `known`; whether anything does."""
    gram, moment, room, known = borrowed(gram), borrowed(moment), borrowed(room), borrowed(known)
    u, w, s = target(room.upper, 0), target(room.lower, 0), target(room.work, 0)
    inverse, theta = target(known.inverse, 0), target(known.theta, 0)
    d = moment.shape[1]
    logdet = kernels.factorise_one(address(gram, 0), address(moment, 0), ridge, d, u, w, s, inverse, theta)
    known.logdet[0], known.growth[0] = logdet, 0.0
    return bool(abs(logdet) < np.inf)


@jit_part
def refresh_one(agents: Sharers, i: int, room: Workspace) -> bool:
    """Compute anew what agent i knows, as `RidgeModels.replace` and `absorb` do once `base` is what they leave; False
    where nothing follows from it.
    """
    agents, room = borrowed(agents), borrowed(room)
    base, fresh, results = agents.base, agents.fresh, agents.results
    d = fresh.moment.shape[1]
    u, w, s = target(room.upper, 0), target(room.lower, 0), target(room.work, 0)
    gram, moment = address(base.gram, i * d * d), address(base.moment, i * d)
    own = fresh.seen[i] > 0.0
    settled = 0.0
    if own:
        settled = kernels.logdet_one(gram, agents.ridge, d, u, s)
        for j in range(d):
            for k in range(d):
                room.gram[j, k] = base.gram[i, j, k] + fresh.gram[i, j, k]
            room.moment[j] = base.moment[i, j] + fresh.moment[i, j]
        gram, moment = address(room.gram, 0), address(room.moment, 0)
    inverse, theta = target(results.inverse, i * d * d), target(results.theta, i * d)
    logdet = kernels.factorise_one(gram, moment, agents.ridge, d, u, w, s, inverse, theta)
    results.logdet[i] = logdet
    results.growth[i] = logdet - settled if own else 0.0
    agents.updates[i] = 0
    return bool(abs(logdet) < np.inf and abs(settled) < np.inf)


@jit
def _advance(growth: FloatArray, updates: IntArray, who: IntArray, gain: FloatArray) -> int:
    """Note an update for each of `who`; returns the largest number of updates since a refresh."""
    most = 0
    for i in range(len(who)):
        growth[who[i]] += gain[i]
        updates[who[i]] += 1
        most = max(most, updates[who[i]])
    return most


def solve(gram: FloatArray, moment: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """V^-1 (m, d, d), V^-1 b (m, d) and log det V (m,) for V = gram + ridge I, by Cholesky.

    A pool told to everybody arrives as one row shown m times (stride 0); it is factorised once.
    """
    if len(gram) > 1 and gram.strides[0] == 0 and moment.strides[0] == 0:
        inverse, theta, logdet = solve(gram[:1].copy(), moment[:1].copy(), ridge)
        m = len(gram)
        return (
            np.broadcast_to(inverse, (m, *inverse.shape[1:])),
            np.broadcast_to(theta, (m, theta.shape[1])),
            np.broadcast_to(logdet, m),
        )
    # the kernels take writable, contiguous rows; a message need not be either
    return kernels.factorise(_own(gram), _own(moment), ridge)


def _own(array: FloatArray) -> FloatArray:
    own = array.flags.carray and array.dtype == np.float64
    return array if own else np.require(array, dtype=np.float64, requirements=["C", "W"])
