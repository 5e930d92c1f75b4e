"""Beliefs about finitely many candidates: what is expected of each, and how these expectations hang together.

A ridge regression of y - f on features g with lambda = `ridge` is, over K candidates with features G (K, p), the same
as a normal distribution of their K mean rewards with mean f and covariance G G^T / lambda, observed with noise of
variance 1. Given more observations it stays one, with

    C = G V^-1 G^T,    m = f + G theta,        V = sum g g^T + lambda I,    theta = V^-1 sum (y - f) g,

and an observation y of candidate j changes it by m += C_j (y - m_j) / (1 + C_jj) and C -= C_j C_j^T / (1 + C_jj), in
K^2 operations, whatever p is. Any other covariance will do as well: a kernel's, or the sum of several.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import aligned
from fedbandits.models.ridge import REFRESH_EVERY
from fedbandits.models.shared_rows import SharedRows


class Belief(NamedTuple):
    """`mean` m (K,) and `spread` C (K, K)."""

    mean: FloatArray
    spread: FloatArray


class Tallies(Stateful):
    """What was observed of each candidate: `count` (n, K) how often, and `total` (n, K) the sum of rewards."""

    keeps: ClassVar[tuple[str, ...]] = ("count", "total")

    def __init__(self, n: int, size: int) -> None:
        self.count, self.total = np.zeros((n, size)), np.zeros((n, size))

    def add(self, who: IntArray, count: FloatArray, total: FloatArray) -> None:
        """(w, K) each, to those of `who`, distinct agents."""
        self.count[who] += count
        self.total[who] += total

    def put(self, who: IntArray, count: FloatArray, total: FloatArray) -> None:
        """(w, K) each, in place of those of `who`."""
        self.count[who], self.total[who] = count, total

    def clear(self, who: IntArray) -> None:
        """Forget everything about `who`."""
        self.count[who] = 0.0
        self.total[who] = 0.0


class CandidateModels(SharedRows):
    """n beliefs about K candidates, each resting on what was `told` plus own observations since.

    `told_mean` (m, K) and `told_spread` (m, K, K) are kept once for agents that were told the same. Own observations
    are `fresh`, or `handed` over to somebody who has not answered yet, the `latest` of them last. `mean` (n, K) and
    `spread` (n, K, K) are what follows from all of it; `growth` (n,) is by how much log det V has grown by what is
    fresh.

    Until it is told anything an agent believes nothing: it only counts.
    """

    rows: ClassVar[tuple[str, ...]] = ("told_mean", "told_spread")
    keeps: ClassVar[tuple[str, ...]] = (
        "row",
        *rows,
        "mean",
        "spread",
        "growth",
        "updates",
        "handed",
        "latest",
        "fresh",
    )
    resizes: ClassVar[frozenset[str]] = frozenset(rows)

    def __init__(self, n: int, size: int) -> None:
        super().__init__(n)
        self.told_mean, self.told_spread = np.zeros((1, size)), np.zeros((1, size, size))
        self.mean, self.spread = np.zeros((n, size)), aligned((n, size, size))
        self.growth = np.zeros(n)
        self.updates = np.zeros(n, dtype=np.int64)
        self.handed, self.latest, self.fresh = (Tallies(n, size) for _ in range(3))

    def deviations(self, who: IntArray) -> FloatArray:
        """(w, K) sqrt(C_jj): the norm of g_j in that of V^-1."""
        return np.asarray(np.sqrt(np.maximum(self.spread.diagonal(axis1=1, axis2=2)[who], 0.0)))

    def learn(self, who: IntArray, places: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`, of the candidate at its place."""
        self.fresh.count[who, places] += 1.0
        self.fresh.total[who, places] += rewards
        _observe(self.mean, self.spread, self.growth, who, places, rewards)
        self.updates[who] += 1
        worn = who[self.updates[who] >= REFRESH_EVERY]
        if len(worn):
            self._recompute(worn)

    def hand_over(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) counts and totals of what is fresh, which is handed over from here on."""
        count, total = self.fresh.count[who], self.fresh.total[who]
        self.handed.add(who, count, total)
        self.latest.put(who, count, total)
        self.fresh.clear(who)
        self.growth[who] = 0.0
        return count, total

    def take_back(self, who: IntArray) -> None:
        """What was handed over at last is fresh again."""
        count, total = self.latest.count[who], self.latest.total[who]
        self.fresh.add(who, count, total)
        self.handed.add(who, -count, -total)
        self.handed.total[who] *= self.handed.count[who] > 0
        self.latest.clear(who)
        self._recompute(who)

    def tell(self, who: IntArray, beliefs: list[Belief]) -> None:
        """Let what was told be these, one for each of `who`, in place of what was told before and of what was handed
        over. Agents that are told one and the same object share it.
        """
        groups: dict[int, list[int]] = {}
        for place, belief in enumerate(beliefs):
            groups.setdefault(id(belief), []).append(place)
        for places in groups.values():
            row = self.claim(who[places], copied=False)
            self.told_mean[row], self.told_spread[row] = beliefs[places[0]]
        self.handed.clear(who)
        self.latest.clear(who)
        self._recompute(who)

    def _recompute(self, who: IntArray) -> None:
        for agent in who:
            told = Belief(self.told_mean[self.row[agent]], self.told_spread[self.row[agent]])
            handed = updated(told, self.handed.count[agent], self.handed.total[agent]).belief
            now = updated(handed, self.fresh.count[agent], self.fresh.total[agent])
            (self.mean[agent], self.spread[agent]), self.growth[agent] = now.belief, now.growth
        self.updates[who] = 0


def linear_prior(offsets: FloatArray, features: FloatArray, ridge: float) -> Belief:
    """What a ridge regression on `features` (K, p) believes before anything is observed; `offsets` (K,)."""
    return Belief(offsets, features @ features.T / ridge)


class Update(NamedTuple):
    """A `belief` after observations, by how much log det V grew (`growth`), and the `misfit` of what was observed,
    r^T (C + diag(1/count))^-1 r, r being the gaps between candidates' mean rewards and what was believed of them.

    For normal rewards with noise of variance v, of which v C was the covariance, the misfit is v times as many squares
    of standard normals as candidates were observed.
    """

    belief: Belief
    growth: float
    misfit: float


def updated(belief: Belief, count: FloatArray, total: FloatArray) -> Update:
    """What follows from `count` (K,) observations of each candidate with rewards that sum up to `total` (K,).

    With S = diag(sqrt(count)), restricted to what was observed: I + S C S = L L^T and W = L^-1 S C give C - W^T W and
    m + W^T u, u = L^-1 S^-1 (total - count m), whose square is the misfit.
    """
    seen = np.flatnonzero(count)
    if len(seen) == 0:
        return Update(belief, 0.0, 0.0)
    root = np.sqrt(count[seen])
    rows = root[:, None] * belief.spread[seen]
    factor = np.linalg.cholesky(np.eye(len(seen)) + rows[:, seen] * root)
    weights = solve_triangular(factor, rows, lower=True)
    gaps = solve_triangular(factor, (total[seen] - count[seen] * belief.mean[seen]) / root, lower=True)
    spread = belief.spread - weights.T @ weights
    growth = 2 * float(np.log(np.diagonal(factor)).sum())
    return Update(Belief(belief.mean + weights.T @ gaps, spread), growth, float(gaps @ gaps))


@jit
def _observe(
    mean: FloatArray, spread: FloatArray, growth: FloatArray, who: IntArray, places: IntArray, rewards: FloatArray
) -> None:
    size = mean.shape[1]
    column, scaled = np.empty(size), np.empty(size)
    for a in range(len(who)):
        i, j = who[a], places[a]
        column[:] = spread[i, j]
        q = 1.0 + column[j]
        gap = (rewards[a] - mean[i, j]) / q
        scaled[:] = column / np.sqrt(q)  # of which products commute to the last bit
        for k in range(size):
            mean[i, k] += gap * column[k]
            row, part = spread[i, k], scaled[k]
            for h in range(size):
                row[h] -= part * scaled[h]
        growth[i] += np.log(q)
