"""What the agents of the K-armed family have in common: arms are known by their place, and turns are counted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.bounding import untouched_widths, width_at_most, width_from
from fedbandits.algorithms.armed.estimators import Estimation, estimator_for
from fedbandits.algorithms.armed.estimators.compiled import estimate_at, take_in
from fedbandits.algorithms.armed.estimators.contract import Rate, demand_at, width_at
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside


def check_armed(who: IntArray, arms: FloatArray, n: int, count: int) -> IntArray | None:
    """`arms` (w, k, K) shows each agent in `who` some of the K = `count` unit vectors, in order: arm k is the k-th.

    None where all of them are shown, otherwise (w, k) which.
    """
    check_arms(who, arms, n, count)
    check_finite("arms", who, arms)
    # one row broadcast to everybody, as the environments of this family show it, needs one look
    shown = arms[:1] if arms.strides[0] == 0 else arms
    if arms.shape[1] == count and np.array_equal(shown, np.broadcast_to(np.eye(count), shown.shape)):
        return None
    places = arms.argmax(axis=2)
    if arms.shape[1] >= count or not np.array_equal(arms, np.eye(count)[places]) or not (np.diff(places) > 0).all():
        raise ValueError(
            f"arms must be the {count} unit vectors, or some of them, in order: this family knows arms by their place, "
            "not by features; for arms that change use an algorithm of the linear family"
        )
    return np.asarray(places)


class Places(NamedTuple):
    """What compiled loops need in order to know arms by their place."""

    arms: int
    """K."""
    checked: BoolArray
    """(1,) whether arms that are the same for everybody and at every turn were looked at."""


@jit_inside
def in_place(places: Places, arms: FloatArray, row: int) -> bool:
    """Whether `arms[row]` (d, K) are all unit vectors, in order; see `check_armed`."""
    alike = arms.shape[0] == 1
    if alike and places.checked[0]:
        return True
    if arms.shape[1] != places.arms or arms.shape[2] != places.arms:
        return False
    for j in range(places.arms):
        for k in range(places.arms):
            if arms[row, j, k] != (1.0 if j == k else 0.0):
                return False
    places.checked[0] = alike
    return True


SPOKEN_FOR = ("choose", "learn", "calling", "_pick", "_observe")
"""What compiled loops do in place of agents of this family."""


class ArmedAgents(Population):
    """n agents who choose among the same K arms at every turn; `turns` (n,) counts the decisions of each.

    Subclasses say what they `_pick` and how they `_observe` a reward; both may rely on checked input. Those who can do
    with some of the arms, the others being away for a turn, also say what they `_pick_among` those that are shown.
    """

    keeps: ClassVar[tuple[str, ...]] = ("turns",)

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(n)
        self._arms = problem.arms
        self.turns = np.zeros(n, dtype=np.int64)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm of each agent in `who`."""
        places = check_armed(who, arms, self._n, self._arms)
        if places is None:
            return self._pick(who)
        shown = self._mask(places)
        picked = self._pick_among(who, shown)
        return np.asarray((places < picked[:, None]).sum(axis=1))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm that is shown; see `Population`."""
        return self._told(self._scores, who, arms)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The chance of every arm that is shown; see `Population`."""
        return self._told(self._chances, who, arms)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self._arms)
        if arms.shape[1] != self._arms:
            places = check_armed(who, arms, self._n, self._arms)
            picks = picks if places is None else places[np.arange(len(who)), picks]
        self._observe(who, picks, rewards)
        self.turns[who] += 1

    def places(self) -> Places:
        """For compiled loops: arms that were not looked at yet."""
        return Places(self._arms, np.zeros(1, dtype=np.bool_))

    def drop_arm(self, place: int) -> None:
        """Let the arm at `place` be one that was never taken, by anybody; raises `ValueError` where that cannot be."""
        raise ValueError(f"{type(self).__name__} cannot drop what they know of an arm")

    @abstractmethod
    def _pick(self, who: IntArray) -> IntArray:
        raise NotImplementedError

    @abstractmethod
    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        raise NotImplementedError

    def _pick_among(self, who: IntArray, shown: BoolArray) -> IntArray:
        """(w,) the arm that each agent in `who` takes of those that are `shown` (w, K)."""
        raise ValueError(
            f"arms must be all {self._arms} unit vectors: {type(self).__name__} need every arm in each turn"
        )

    def _scores(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        """(w, K) as `scores`, among those that are `shown` (w, K)."""
        return None

    def _chances(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        """(w, K) as `chances`, among those that are `shown` (w, K)."""
        return None

    def _told(
        self, tell: Callable[[IntArray, BoolArray], FloatArray | None], who: IntArray, arms: FloatArray
    ) -> FloatArray | None:
        places = check_armed(who, arms, self._n, self._arms)
        shown = np.ones((len(who), self._arms), dtype=np.bool_) if places is None else self._mask(places)
        found = tell(who, shown)
        return found if found is None or places is None else np.take_along_axis(found, places, axis=1)

    def _mask(self, places: IntArray) -> BoolArray:
        """(w, k) places -> (w, K) which arms are shown."""
        shown = np.zeros((len(places), self._arms), dtype=np.bool_)
        np.put_along_axis(shown, places, True, axis=1)
        return shown


def best_shown(index: FloatArray, shown: BoolArray) -> IntArray:
    """(w,) the arm of highest `index` (w, K) among those that are `shown` (w, K), the lowest place of equals."""
    return np.asarray(np.where(shown, index, -np.inf).argmax(axis=1))


class IndexAgents(ArmedAgents):
    """Agents that take every arm once, in order, and then the arm of highest estimate plus width; see `estimators`."""

    keeps: ClassVar[tuple[str, ...]] = ("turns", "known")

    def __init__(self, estimation: Estimation, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.known = estimator_for(estimation, problem, n)

    def indexed(self, samples: IntArray) -> Indexed | None:
        """For compiled loops, with room for so many samples (n,) of every arm; None where they cannot estimate."""
        known = self.known.compiled(samples)
        if known is None:
            return None
        rate, (n, arms) = self.known.rate, self.known.counts.shape
        favourites = np.zeros(n, dtype=np.int64)
        touched = untouched_widths(n, arms, rate)
        return Indexed(self.turns, self.known.counts, known, rate, self.places(), favourites, touched)

    def _pick(self, who: IntArray) -> IntArray:
        turns = self.turns[who] + 1
        best = self._indices(who, turns).argmax(axis=1)
        return np.where(turns <= self._arms, turns - 1, best)

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.known.gather(who, np.arange(len(who)), picks, rewards)

    def _indices(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) the index of every arm for each agent in `who`, in its turn (w,); infinite without a sample."""
        return self.known.estimates(who, turns) + self.known.widths(self.known.counts[who], turns)


INDEXED = (*SPOKEN_FOR, "_indices")
"""What compiled loops do in place of index agents."""


class Indexed(NamedTuple):
    """What `IndexAgents` are made up of, for compiled loops."""

    turns: IntArray
    counts: IntArray
    known: Any
    """The estimator's (`Estimator.compiled`)."""
    rate: Rate
    places: Places
    favourites: IntArray
    """(n,) what each agent picked last."""
    touched: FloatArray
    """See `bounding`."""


@jit_inside
def index_at(agents: Indexed, count: int, mean: float, demand: float) -> float:
    """The index of an arm of which so many samples are known, with that mean."""
    rate = agents.rate
    return mean + width_at(count, demand, rate.offset, rate.factor, rate.exponent)


@jit_inside
def pick_indexed(agents: Indexed, i: int) -> int:
    """What `IndexAgents` pick: of equals the lowest place. What was picked last comes first, for others are measured
    against it before their index is computed.
    """
    turn, rate, touched = int(agents.turns[i]) + 1, agents.rate, agents.touched
    now, demand = np.log(turn), demand_at(turn, rate.base, rate.slope)
    first, best, found = agents.favourites[i], -np.inf, 0
    for j in range(agents.places.arms):
        k = first if j == 0 else j - 1 if j <= first else j
        count, mean = agents.counts[i, k], estimate_at(agents.known, i, k, now)
        if mean + width_at_most(touched, i, k, count, demand, rate) < best:
            continue
        index = mean + width_from(touched, i, k, count, demand, rate)
        if index > best or (index == best and k < found):
            best, found = index, k
    agents.favourites[i] = found
    return turn - 1 if turn <= agents.places.arms else found


@jit_inside
def observe_indexed(agents: Indexed, i: int, pick: int, reward: float, weight: float) -> None:
    """What `IndexAgents` observe."""
    take_in(agents.known, i, pick, reward, weight)
    agents.turns[i] += 1
