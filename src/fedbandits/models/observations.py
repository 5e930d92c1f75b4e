"""What an agent has observed, kept where it was observed: only gradients and curvatures of its loss ever leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import ClassVar, NamedTuple, Self

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.links import MeanFunction, to_means, to_slopes, total_cumulant
from fedbandits.linalg.simd import address, target

BLOCK = 256
"""Observations that are gone over together: few enough to stay in the fastest cache."""


class RawArrays(NamedTuple):
    """What `Observations` are kept in, for compiled loops."""

    arms: FloatArray
    rewards: FloatArray
    kept: IntArray
    """(n,) how many."""


@jit_inside
def keep_one(raw: RawArrays, i: int, arms: FloatArray, row: int, pick: int, reward: float) -> bool:
    """What `Observations.add` does for agent i, which has taken the arm `pick` of `arms[row]` (d, K); whether there is
    no room for another one.
    """
    place = raw.kept[i]
    for j in range(arms.shape[1]):
        raw.arms[i, j, place] = arms[row, j, pick]
    raw.rewards[i, place] = reward
    raw.kept[i] = place + 1
    return bool(place + 1 >= raw.rewards.shape[1])


class Observations(Stateful):
    """Raw data of n agents: `arms` (n, d, capacity), `rewards` (n, capacity), `count` (n,), `given` (n,).

    Capacity is doubled when an agent has filled it. The first `given` observations are those that the server has been
    told of: what an update of everybody's estimate is about, however long it takes and whatever is observed meanwhile.
    """

    keeps: ClassVar[tuple[str, ...]] = ("arms", "rewards", "count", "given")
    resizes: ClassVar[frozenset[str]] = frozenset({"arms", "rewards"})

    def __init__(self, n: int, dim: int, capacity: int) -> None:
        self.arms = np.zeros((n, dim, max(capacity, 1)))
        self.rewards = np.zeros((n, max(capacity, 1)))
        self.count = np.zeros(n, dtype=np.int64)
        self.given = np.zeros(n, dtype=np.int64)

    def add(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> FloatArray:
        """Keep one observation for each of `who`; returns the chosen arms (w, d)."""
        chosen = kernels.chosen(kernels.as_lanes(arms), picks)
        self.keep(who, chosen, rewards)
        return chosen

    def keep(self, who: IntArray, chosen: FloatArray, rewards: FloatArray) -> None:
        """As `add`, from the `chosen` arms (w, d) alone."""
        if not _have_room(self.count, who, self.rewards.shape[1]):
            self.arms = np.concatenate([self.arms, np.zeros_like(self.arms)], axis=2)
            self.rewards = np.concatenate([self.rewards, np.zeros_like(self.rewards)], axis=1)
        _keep(self.arms, self.rewards, self.count, who, np.ascontiguousarray(chosen), rewards)

    def arrays(self) -> RawArrays:
        """What compiled loops keep observations in, by reference."""
        return RawArrays(self.arms, self.rewards, self.count)

    @property
    def full(self) -> bool:
        """Whether somebody has no room for another observation: compiled loops cannot make any, `keep` does."""
        return bool(self.count.max() >= self.rewards.shape[1])

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the capacity may differ."""
        n, dim, _ = self.arms.shape
        rewards = state[f"{prefix}rewards"].shape
        capacity = max(int(state[f"{prefix}count"].max(initial=0)), rewards[1])
        for name, needed in {"rewards": (n, capacity), "arms": (n, dim, capacity)}.items():
            given = state[prefix + name].shape
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this population needs {needed}")

    def give(self, who: IntArray) -> None:
        """The server has been told of everything that `who` have observed so far."""
        self.given[who] = self.count[who]

    def take_back(self, who: IntArray, count: FloatArray) -> None:
        """The server was not told of the last `count` (w,) observations that were given."""
        self.given[who] -= count.astype(np.int64)

    def so_far(self) -> Self:
        """The same as they are now, whatever is added or given later; another thread may read them meanwhile. Nothing
        is copied but counts: observations are never changed.
        """
        held = copy(self)
        held.count, held.given = self.count.copy(), self.given.copy()
        return held

    def since(self, who: IntArray) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """What `who` have observed beyond what was given, in order and one observation of each agent at a time: those
        who have another one (w,), its arm (w, d), its reward (w,).
        """
        more = self.count[who] - self.given[who]
        for number in range(more.max(initial=0)):
            left = who[more > number]
            place = self.given[left] + number
            yield left, self.arms[left, :, place], self.rewards[left, place]

    def gradients(self, link: MeanFunction, who: IntArray, theta: FloatArray, *, given: bool) -> FloatArray:
        """(w, d) sum of x (mu(<theta, x>) - y) over the observations of each of `who`, at its row of `theta` (w, d):
        those that were `given`, or those beyond.
        """
        rows, nothing = np.ascontiguousarray(theta), np.zeros_like(self.given)
        first, end = (nothing, self.given) if given else (self.given, self.count)
        return gradients(link.code, self.arms, self.rewards, who, first, end, rows)

    def curvatures(
        self, link: MeanFunction, who: IntArray, theta: FloatArray, *, given: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Loss (w,), gradient (w, d) and Hessian sum mu'(<theta, x>) x x^T (w, d, d) of each of `who`, over what was
        `given`, or over everything.
        """
        rows = np.ascontiguousarray(theta)
        return _curvatures(link.code, self.arms, self.rewards, who, self.given if given else self.count, rows)


@jit
def _have_room(count: IntArray, who: IntArray, capacity: int) -> bool:
    found = True
    for i in who:
        found &= count[i] < capacity
    return found


@jit
def _keep(
    arms: FloatArray, rewards: FloatArray, count: IntArray, who: IntArray, chosen: FloatArray, earned: FloatArray
) -> None:
    """One more observation of each of `who`, for which there is room."""
    for a in range(len(who)):
        i = who[a]
        for j in range(chosen.shape[1]):
            arms[i, j, count[i]] = chosen[a, j]
        rewards[i, count[i]] = earned[a]
        count[i] += 1


@jit
def gradients(
    code: int,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    first: IntArray,
    end: IntArray,
    theta: FloatArray,
) -> FloatArray:
    """(w, d) see `Observations.gradients`, over the observations from `first` (n,) to `end` (n,) of each."""
    out = np.zeros(theta.shape)
    _gradients_into(code, arms, rewards, who, first, end, theta, np.empty(BLOCK), out)
    return out


@jit_part
def _gradients_into(
    code: int,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    first: IntArray,
    end: IntArray,
    theta: FloatArray,
    gaps: FloatArray,
    out: FloatArray,
) -> None:
    _, d, capacity = arms.shape
    kernels.check_who(len(first), who)
    for a in range(len(who)):
        i = who[a]
        for begin in range(first[i], end[i], BLOCK):
            size = min(BLOCK, end[i] - begin)
            rows = address(arms, i * d * capacity + begin)
            kernels.weighted(address(theta, a * d), rows, capacity, d, size, target(gaps, 0))
            to_means(code, gaps, size)
            for s in range(size):
                gaps[s] -= rewards[i, np.uint64(begin + s)]
            kernels.add_dots(rows, capacity, d, size, address(gaps, 0), target(out, a * d))


@jit
def _curvatures(
    code: int, arms: FloatArray, rewards: FloatArray, who: IntArray, end: IntArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    d = arms.shape[1]
    loss = np.zeros(len(who))
    gradient = np.zeros((len(who), d))
    hessian = np.zeros((len(who), d, d))
    room = np.empty((3, BLOCK))
    for a in range(len(who)):
        i = who[a]
        loss[a] = curvature_one(code, arms[i], rewards[i], end[i], theta[a], gradient[a], hessian[a], room)
    return loss, gradient, hessian


@jit_part
def curvature_one(
    code: int,
    arms: FloatArray,
    rewards: FloatArray,
    end: int,
    theta: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    room: FloatArray,
) -> float:
    """The loss at `theta` (d,) over the first `end` observations of one agent, whose gradient (d,) and Hessian (d, d)
    are added to zeros; `room` (3, `BLOCK`) is for what is written in between.
    """
    d, capacity = arms.shape
    loss = 0.0
    scores, gaps, weighted = room[0], room[1], room[2]
    for begin in range(0, end, BLOCK):
        size = min(BLOCK, end - begin)
        rows = address(arms, begin)
        kernels.weighted(address(theta, 0), rows, capacity, d, size, target(scores, 0))
        gaps[:size] = scores[:size]
        to_means(code, gaps, size)
        loss += total_cumulant(code, scores, gaps, size)
        for s in range(size):
            loss -= rewards[np.uint64(begin + s)] * scores[s]
        to_slopes(code, scores, gaps, size)
        for s in range(size):
            gaps[s] -= rewards[np.uint64(begin + s)]
        kernels.add_dots(rows, capacity, d, size, address(gaps, 0), target(gradient, 0))
        for j in range(d):
            for s in range(size):
                weighted[s] = scores[s] * arms[j, np.uint64(begin + s)]
            kernels.add_dots(rows, capacity, j + 1, size, address(weighted, 0), target(hessian, j * d))
    for j in range(len(theta)):
        for k in range(j):
            hessian[k, j] = hessian[j, k]
    return loss
