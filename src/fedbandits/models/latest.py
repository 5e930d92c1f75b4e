"""The latest that every agent has heard from each agent within reach."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.graphs.hops import pairs_by_distance
from fedbandits.linalg.jit import jit


class Neighbourhood(Stateful):
    """For every pair (listener, origin) at 1..ttl hops on the network: means and counts of K arms, and when they were
    said.

    Pairs are stored listener by listener, origins rising: agent i holds rows `first[i]` to `first[i+1]`, so that alone
    it would hold just these. Without a network nobody is within reach.
    """

    keeps: ClassVar[tuple[str, ...]] = ("means", "counts", "born")

    def __init__(self, problem: Problem, identities: IntArray) -> None:
        self._first, self._origins = _within_reach(problem, identities)
        pairs = len(self._origins)
        self.means = np.zeros((pairs, problem.arms))
        """(E, K) what was told last; 0 before anything was."""
        self.counts = np.zeros((pairs, problem.arms), dtype=np.int64)
        """(E, K) on how many rewards."""
        self.born = np.full(pairs, -1)
        """(E,) the round in which it was said; -1 before."""

    def update(
        self, to: IntArray, row: IntArray, said_by: IntArray, born: IntArray, means: FloatArray, counts: IntArray
    ) -> None:
        """Take in letters: letter e is for agent `to[e]` and holds row `row[e]` of the other arrays.

        What is older than what is known already is dropped, in whatever order letters arrive.
        """
        places = _places(self._first, self._origins, to, row, said_by)
        if len(places) and places.min() < 0:
            lost = int(np.argmin(places))
            raise ValueError(
                f"a letter from agent {said_by[row[lost]]} reached an agent that is not within its reach: the network "
                "of the relay is not that of the problem"
            )
        _keep_newest(places, row, born, means, counts, self.born, self.means, self.counts)

    def add_to(self, who: IntArray, totals: FloatArray, weights: FloatArray) -> None:
        """Add sums of count times mean, and of counts, over all that each of `who` has heard, to `totals` and
        `weights` (w, K).
        """
        _add(self._first, self.means, self.counts, who, totals, weights)

    def _share(self, agent: int, prefix: str) -> State:
        rows = slice(self._first[agent], self._first[agent + 1])
        return {prefix + name: getattr(self, name)[rows] for name in self.keeps}


def _within_reach(problem: Problem, identities: IntArray) -> tuple[IntArray, IntArray]:
    """(n+1,) where each agent's rows begin, and (E,) the origin of each row."""
    n = len(identities)
    if problem.network is None or problem.ttl == 0:
        return np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    rings = pairs_by_distance(problem.network, problem.ttl)[1:]
    origin = np.concatenate([ring.origin for ring in rings])
    to = np.concatenate([ring.to for ring in rings])
    local = np.full(problem.network.number_of_nodes(), -1)
    local[identities] = np.arange(n)
    here = local[to] >= 0
    origin, listener = origin[here], local[to[here]]
    first = np.concatenate([[0], np.cumsum(np.bincount(listener, minlength=n))])
    return first, origin[np.lexsort((origin, listener))]


@jit
def _places(first: IntArray, origins: IntArray, to: IntArray, row: IntArray, said_by: IntArray) -> IntArray:
    """(letters,) the row that each letter belongs to, -1 where there is none."""
    places = np.empty(len(to), np.int64)
    for e in range(len(to)):
        origin = said_by[row[e]]
        low, high = first[to[e]], first[to[e] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if origins[middle] < origin:
                low = middle + 1
            else:
                high = middle
        places[e] = low if low < end and origins[low] == origin else -1
    return places


@jit
def _keep_newest(
    places: IntArray,
    row: IntArray,
    born: IntArray,
    means: FloatArray,
    counts: IntArray,
    kept_born: IntArray,
    kept_means: FloatArray,
    kept_counts: IntArray,
) -> None:
    for e in range(len(places)):
        place, r = places[e], row[e]
        if born[r] > kept_born[place]:
            kept_born[place] = born[r]
            for k in range(means.shape[1]):
                kept_means[place, k] = means[r, k]
                kept_counts[place, k] = counts[r, k]


@jit
def _add(
    first: IntArray, means: FloatArray, counts: IntArray, who: IntArray, totals: FloatArray, weights: FloatArray
) -> None:
    for i in range(len(who)):
        for e in range(first[who[i]], first[who[i] + 1]):
            for k in range(means.shape[1]):
                totals[i, k] += counts[e, k] * means[e, k]
                weights[i, k] += counts[e, k]
