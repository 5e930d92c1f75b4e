"""Recommendation from a log of positive events: find the item the user took among K shown.

The recipe of Cesa-Bianchi, Gentile & Zappella (NeurIPS 2013) as the federated publications use it. Event (user u,
item a) becomes one decision: client u sees a and K - 1 items drawn without replacement from those u has no event
with, in random order; the reward is 1 for a and 0 otherwise. A random policy earns 1/K per decision.

`regret` is 1 - reward here: there is no model of mean rewards, and the logged item is the best by construction, so
the best reward of every decision is 1. It is a realised regret, not a pseudo-regret, and no policy brings it to 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment, ConfigError
from fedbandits.contract.compiled import ADDED, Block, untouched
from fedbandits.contract.facts import Noise, Norms
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World
from fedbandits.linalg.jit import jit

Order = Literal["interleaved", "shuffled"]
"""Interleaved: again and again a uniformly random user who has events left takes the next one, in the log's order.
Shuffled: a uniformly random order of all events."""

Takers = Literal["one", "all"]
"""One event per step; or in every step the next event of each user who has one left."""

_BLOCK = 2**18
"""Arm coordinates drawn at once; part of what a seed means, since every block has its own generator."""


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Who took what: event e says that user `users[e]` took item `items[e]`, in the order of the log.

    Users are 0..n-1, each with at least one event; `features` (items, d) describe all items there are.
    """

    features: FloatArray
    users: IntArray
    items: IntArray

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or not np.isfinite(self.features).all():
            raise ConfigError("features: must be a finite (items, d) array")
        for name in ("users", "items"):
            given = np.asarray(getattr(self, name))
            if given.ndim != 1 or given.dtype.kind not in "iu":
                raise ConfigError(f"{name}: must be a one-dimensional integer array (got {given.dtype} {given.shape})")
            object.__setattr__(self, name, given.astype(np.int64))
        if len(self.users) != len(self.items) or not len(self.users):
            raise ConfigError(f"users and items: one of each per event (got {len(self.users)} and {len(self.items)})")
        if self.items.min() < 0 or self.items.max() >= len(self.features):
            raise ConfigError(f"items: must lie in 0..{len(self.features) - 1}, the rows of features")
        if self.users.min() < 0 or not np.bincount(self.users).all():
            raise ConfigError("users: must be 0..n-1, each with at least one event")


def active(users: Array, min_events: int) -> tuple[IntArray, IntArray]:
    """Which events are by users with at least `min_events`: their positions, and their users renumbered 0..n-1."""
    index, ids = pd.factorize(users, sort=True)
    events = np.bincount(index, minlength=len(ids))
    kept = events >= min_events
    if not kept.any():
        most = events.max(initial=0)
        raise ConfigError(f"min_events: no user has {min_events} events; the most active one has {most}")
    at = np.flatnonzero(kept[index])
    return at, (np.cumsum(kept) - 1)[index[at]]


class RecommendationWorld(World):
    """The decisions a log poses under one seed.

    Step t consists of the events `sequence[starts[t]:starts[t + 1]]`, no user twice. Blocks of steps draw their
    candidates from generators of their own, so any step can be visited at any time; one block is held.
    """

    def __init__(
        self, problem: Problem, log: Log, sequence: IntArray, starts: IntArray, seed: np.random.SeedSequence
    ) -> None:
        self.problem = problem
        self._features = np.ascontiguousarray(log.features)
        self._users, self._items = log.users[sequence], log.items[sequence]
        self._starts = starts
        self._taken = _Taken(log, problem.arms)
        self._seed = seed
        awake = int(np.diff(starts).max())
        self._steps = max(1, _BLOCK // (awake * problem.arms * problem.dim))
        self._block = -1
        self._handed_over: Block | None = None

    def turn(self, step: int) -> Turn:
        """Who is awake, and what they see; see `World`."""
        here, drawn = self._seek(step)
        return Turn(self._users[here], self._lanes[drawn].transpose(0, 2, 1))

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """Reward 1 where the pick is the logged item, else 0; regret is 1 - reward."""
        _, drawn = self._seek(step)
        rewards = (picks == self._place[drawn]).astype(np.float64)
        return Outcome(rewards, 1.0 - rewards, np.full(len(rewards), 1.0 / self.problem.arms))

    def block(self, step: int) -> Block | None:
        """See `World`: where equally many users are awake in all steps that are drawn."""
        if not untouched(self, RecommendationWorld, "turn", "pay"):
            return None
        self._seek(step)
        first = self._block * self._steps
        starts = self._starts[first : first + self._steps + 1]
        awake = int(starts[1] - starts[0])
        if (np.diff(starts) != awake).any():
            return None
        if self._handed_over is None:
            shape = (len(starts) - 1, awake)
            found = np.zeros((len(self._place), self.problem.arms))
            found[np.arange(len(found)), self._place] = 1.0
            self._handed_over = Block(
                first=first,
                who=np.array(self._users[starts[0] : starts[-1]]).reshape(shape),
                arms=self._lanes,
                means=found,
                best=np.ones(shape),
                chance=np.full(shape, 1.0 / self.problem.arms),
                shocks=np.zeros(shape),
                law=ADDED,
            )
        return self._handed_over

    def shown(self, step: int) -> IntArray:
        """(w, K) the items behind the arms of `step`."""
        _, drawn = self._seek(step)
        return self._shown[drawn]

    def _seek(self, step: int) -> tuple[slice, slice]:
        """The events of `step`, as a slice of the sequence and of the block that is then held."""
        if not 0 <= step < len(self._starts) - 1:
            raise IndexError(f"step {step} lies outside 0..{len(self._starts) - 2}")
        block = step // self._steps
        first = self._starts[block * self._steps]
        if block != self._block:
            last = self._starts[min((block + 1) * self._steps, len(self._starts) - 1)]
            self._draw(slice(first, last), _generator(self._seed, 1, block))
            self._block, self._handed_over = block, None
        here = slice(self._starts[step], self._starts[step + 1])
        return here, slice(here.start - first, here.stop - first)

    def _draw(self, events: slice, rng: np.random.Generator) -> None:
        users, items, arms = self._users[events], self._items[events], self.problem.arms
        uniforms = rng.random((len(users), arms))
        self._place = (uniforms[:, -1] * arms).astype(np.int64)
        self._shown = np.empty((len(users), arms), dtype=np.int64)
        self._lanes = np.empty((len(users), self._features.shape[1], arms))
        taken = self._taken
        _candidates(uniforms, self._place, users, items, taken.bounds, taken.items, len(self._features), self._shown)
        _gather(self._features, self._shown, self._lanes)


class _Taken:
    """Each user's distinct items in rising order, those of user u at `items[bounds[u]:bounds[u + 1]]`."""

    def __init__(self, log: Log, arms: int) -> None:
        universe = len(log.features)
        users, self.items = np.divmod(np.unique(log.users * universe + log.items), universe)
        counts = np.bincount(users)
        self.bounds = np.concatenate([[0], np.cumsum(counts)])
        if universe - counts.max() < arms - 1:
            raise ConfigError(
                f"arms: at most {universe - counts.max() + 1}, since a user took {counts.max()} of {universe} items "
                f"and the others are to be shown beside one of them (got {arms})"
            )


@parameters
class Recommending(ABC):
    """What every environment made from a log has in common.

    `arms` K items are shown for each event. `bias` appends a constant 1 to the features, which models with a
    bounded link need. `noise` is the sub-Gaussian constant told to the algorithms: 0.5 holds for any reward in [0, 1].
    `bound` is told them as the bound S on the parameter's norm; a log has no true parameter, so it is a choice.
    """

    arms: Annotated[int, Field(ge=2)] = 25
    bias: bool = False
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    bound: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    order: Order = "interleaved"
    schedule: Takers = "one"

    about: ClassVar[AboutEnvironment]

    @abstractmethod
    def read(self) -> Log:
        """The log; the same object or an equal one at every call."""

    def world(self, horizon: int, seed: np.random.SeedSequence) -> RecommendationWorld:
        """The instance that `seed` stands for; `horizon` may be shorter than the log, not longer."""
        log = self.read()
        if self.bias:
            log = Log(np.hstack([log.features, np.ones((len(log.features), 1))]), log.users, log.items)
        sequence = _sequence(log.users, self.order, _generator(seed, 0))
        starts = np.arange(len(sequence) + 1)
        if self.schedule == "all":
            sequence, starts = _rounds(log.users, sequence)
        longest = len(starts) - 1
        if horizon > longest:
            raise ConfigError(
                f"horizon: at most {longest}, as long as the log of {self.about.name} lasts with "
                f"schedule={self.schedule} (got {horizon})"
            )
        problem = Problem(
            agents=int(log.users.max()) + 1,
            dim=log.features.shape[1],
            arms=self.arms,
            horizon=horizon,
        )
        reach = float(np.linalg.norm(log.features, axis=1).max())
        problem = problem.knowing(Noise(self.noise), Norms(parameter=self.bound, arms=reach))
        return RecommendationWorld(problem, log, sequence, starts, seed)


@parameters
class Recommendation(Recommending):
    """Any log of your own.

    >>> import numpy as np
    >>> import fedbandits as fb
    >>> log = Log(np.eye(9), users=np.repeat([0, 1], 5), items=np.tile([0, 1, 2, 3, 4], 2))
    >>> trace = fb.simulate(fb.algorithms.IndependentLinUCB(), Recommendation(log=log, arms=4), horizon=10)
    >>> bool((trace.regret + trace.reward == trace.decisions).all())
    True
    """

    log: Log

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="recommendation",
        family="recommendation",
        summary="a log of positive events: find the item the user took among K",
        source="Cesa-Bianchi, Gentile & Zappella, NeurIPS 2013",
    )

    def read(self) -> Log:
        """The log given."""
        return self.log


def _generator(seed: np.random.SeedSequence, *path: int) -> np.random.Generator:
    """A generator below `seed`; unlike `spawn` this leaves `seed` as it was."""
    below = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path))
    return np.random.Generator(np.random.SFC64(below))


def _sequence(users: IntArray, order: Order, rng: np.random.Generator) -> IntArray:
    """(events,) the events in the order in which they happen."""
    if order == "shuffled":
        return rng.permutation(len(users))
    sequence = np.empty(len(users), dtype=np.int64)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(users))])
    _interleave(np.argsort(users, kind="stable"), bounds, rng.random(len(users)), sequence)
    return sequence


def _rounds(users: IntArray, sequence: IntArray) -> tuple[IntArray, IntArray]:
    """Round t holds everybody's t-th event of `sequence`, by rising user: the events, and where rounds start."""
    grouped = sequence[np.argsort(users[sequence], kind="stable")]
    counts = np.bincount(users)
    turn = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    return grouped[np.argsort(turn, kind="stable")], np.concatenate([[0], np.cumsum(np.bincount(turn))])


@jit
def _interleave(grouped: IntArray, bounds: IntArray, uniforms: FloatArray, sequence: IntArray) -> None:
    """Merge the users' events, which lie in `grouped` between their `bounds`, by drawing users that have some left."""
    users = np.arange(len(bounds) - 1)
    upcoming = bounds[:-1].copy()
    left = len(users)
    for t in range(len(sequence)):
        drawn = int(uniforms[t] * left)
        user = users[drawn]
        sequence[t] = grouped[upcoming[user]]
        upcoming[user] += 1
        if upcoming[user] == bounds[user + 1]:
            left -= 1
            users[drawn] = users[left]


@jit
def _candidates(
    uniforms: FloatArray,
    place: IntArray,
    users: IntArray,
    items: IntArray,
    bounds: IntArray,
    taken: IntArray,
    universe: int,
    shown: IntArray,
) -> None:
    """Fill `shown` (E, K): the logged item at its `place`, elsewhere a uniform subset of what the user never took.

    The others are drawn by a partial shuffle of the ranks 0..free-1 of the user's free items, undone afterwards; the
    item of rank r is r + j, where j counts the taken items before it, found by bisection.
    """
    events, arms = shown.shape
    ranks = np.arange(universe)
    swapped = np.empty(arms, dtype=np.int64)
    for e in range(events):
        first = bounds[users[e]]
        count = bounds[users[e] + 1] - first
        free = universe - count
        for k in range(arms - 1):
            other = k + int(uniforms[e, k] * (free - k))
            ranks[k], ranks[other] = ranks[other], ranks[k]
            swapped[k] = other
        for k in range(arms - 1):
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if taken[first + middle] - middle > ranks[k]:
                    high = middle
                else:
                    low = middle + 1
            shown[e, k if k < place[e] else k + 1] = ranks[k] + low
        shown[e, place[e]] = items[e]
        for k in range(arms - 1):
            ranks[k] = k
            ranks[swapped[k]] = swapped[k]


@jit
def _gather(features: FloatArray, shown: IntArray, lanes: FloatArray) -> None:
    """lanes[e, j, k] = features[shown[e, k], j]."""
    events, dim, arms = lanes.shape
    for e in range(events):
        for k in range(arms):
            row = shown[e, k]
            for j in range(dim):
                lanes[e, j, k] = features[row, j]
