"""What an agent has observed, kept where it was observed: only gradients and curvatures of its loss ever leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from fedbandits.arrays import Array, FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit
from fedbandits.linalg.links import Link, cumulant, mean, slope
from fedbandits.state import Stateful


class Observations(Stateful):
    """Raw data of n agents: `arms` (n, capacity, d), `rewards` (n, capacity), `count` (n,), `given` (n,).

    Capacity is doubled when an agent has filled it. The first `given` observations are those that the server has been
    told of: what an update of everybody's estimate is about, however long it takes and whatever is observed meanwhile.
    """

    keeps: ClassVar[tuple[str, ...]] = ("arms", "rewards", "count", "given")
    resizes: ClassVar[frozenset[str]] = frozenset({"arms", "rewards"})

    def __init__(self, n: int, dim: int, capacity: int) -> None:
        self.arms = np.zeros((n, max(capacity, 1), dim))
        self.rewards = np.zeros((n, max(capacity, 1)))
        self.count = np.zeros(n, dtype=np.int64)
        self.given = np.zeros(n, dtype=np.int64)

    def add(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> FloatArray:
        """Keep one observation for each of `who`; returns the chosen arms (w, d)."""
        chosen = kernels.chosen(kernels.as_lanes(arms), picks)
        if len(who) and self.count[who].max() >= self.rewards.shape[1]:
            self.arms = np.concatenate([self.arms, np.zeros_like(self.arms)], axis=1)
            self.rewards = np.concatenate([self.rewards, np.zeros_like(self.rewards)], axis=1)
        self.arms[who, self.count[who]] = chosen
        self.rewards[who, self.count[who]] = rewards
        self.count[who] += 1
        return chosen

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the capacity may differ."""
        n, _, dim = self.arms.shape
        rewards = state[f"{prefix}rewards"].shape
        capacity = max(int(state[f"{prefix}count"].max(initial=0)), rewards[1])
        for name, needed in {"rewards": (n, capacity), "arms": (n, capacity, dim)}.items():
            given = state[prefix + name].shape
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")

    def give(self, who: IntArray) -> None:
        """The server has been told of everything that `who` have observed so far."""
        self.given[who] = self.count[who]

    def since(self, who: IntArray) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """What `who` have observed beyond what was given, in order and one observation of each agent at a time: those
        who have another one (w,), its arm (w, 1, d), its reward (w,).
        """
        more = self.count[who] - self.given[who]
        for number in range(more.max(initial=0)):
            left = who[more > number]
            place = self.given[left] + number
            yield left, self.arms[left, place][:, None], self.rewards[left, place]

    def gradients(self, link: Link, who: IntArray, theta: FloatArray, *, given: bool) -> FloatArray:
        """(w, d) sum of x (mu(<theta, x>) - y) over the observations of each of `who`, at its row of `theta` (w, d):
        those that were `given`, or those beyond.
        """
        rows, nothing = np.ascontiguousarray(theta), np.zeros_like(self.given)
        first, end = (nothing, self.given) if given else (self.given, self.count)
        return _gradients(link.code, self.arms, self.rewards, who, first, end, rows)

    def curvatures(
        self, link: Link, who: IntArray, theta: FloatArray, *, given: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Loss (w,), gradient (w, d) and Hessian sum mu'(<theta, x>) x x^T (w, d, d) of each of `who`, over what was
        `given`, or over everything.
        """
        rows = np.ascontiguousarray(theta)
        return _curvatures(link.code, self.arms, self.rewards, who, self.given if given else self.count, rows)


@jit
def _gradients(
    code: int,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    first: IntArray,
    end: IntArray,
    theta: FloatArray,
) -> FloatArray:
    d = arms.shape[2]
    out = np.zeros((len(who), d))
    for a in range(len(who)):
        i = who[a]
        for s in range(first[i], end[i]):
            z = 0.0
            for j in range(d):
                z += arms[i, s, j] * theta[a, j]
            gap = mean(code, z) - rewards[i, s]
            for j in range(d):
                out[a, j] += gap * arms[i, s, j]
    return out


@jit
def _curvatures(
    code: int, arms: FloatArray, rewards: FloatArray, who: IntArray, end: IntArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    d = arms.shape[2]
    loss = np.zeros(len(who))
    gradient = np.zeros((len(who), d))
    hessian = np.zeros((len(who), d, d))
    for a in range(len(who)):
        i = who[a]
        for s in range(end[i]):
            z = 0.0
            for j in range(d):
                z += arms[i, s, j] * theta[a, j]
            loss[a] += cumulant(code, z) - rewards[i, s] * z
            gap = mean(code, z) - rewards[i, s]
            weight = slope(code, z)
            for j in range(d):
                gradient[a, j] += gap * arms[i, s, j]
                scaled = weight * arms[i, s, j]
                for k in range(j + 1):
                    hessian[a, j, k] += scaled * arms[i, s, k]
        for j in range(d):
            for k in range(j):
                hessian[a, k, j] = hessian[a, j, k]
    return loss, gradient, hessian
