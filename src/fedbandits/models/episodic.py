"""Agents whose decisions come in episodes: stages are counted, and transitions completed, once for all families.

The rules, of which the fact `Episodes` is the short form:

- An agent's h-th own turn since its episode began is stage h. It is not told so: it counts. One that sleeps in between
  goes on where it was, however many turns others have had.
- A transition is complete once its agent has seen where it led, which is its next turn; the last of an episode at once.
- An episode is over after H turns, or at a turn whose arms are all zero, which is no stage itself.
- Of one that is followed no further (`truncate`), every transition counts whose end was seen.
- What agents plan with are finished episodes: their own, and what they are told of others'. The running one is theirs
  alone until it is over; whoever is asked in mid-episode hands over what was finished before.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, decided
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.models.features import Features, Identity
from fedbandits.models.ridge import RidgeArrays, learn_one
from fedbandits.models.situated import SituatedAgents
from fedbandits.models.stage_models import StageModels
from fedbandits.models.transitions import NOTHING, Table, Transitions, add_one
from fedbandits.models.views import ViewTable, find_view

FRESH = 0
"""The part of an agent's own transitions that nobody else has been told of."""


SPOKEN_FOR = ("choose", "learn", "regressions", "closed", "calling", "situate", "heard", "standing", "_close")
"""Methods of `EpisodicAgents` in whose place compiled functions are called."""


class Walkers(NamedTuple):
    """`EpisodicAgents` that see the arms as they are, for compiled loops: all but what they act on."""

    views: ViewTable
    seen: FloatArray
    """The arms of all views, (n room, d, 1)."""
    own: Table
    models: RidgeArrays
    stage: IntArray
    trail_view: IntArray
    trail_arm: IntArray
    trail_reward: FloatArray


class EpisodicAgents(SituatedAgents):
    """n agents in episodes, who act on an optimistic regression for every stage, in the space of their `features`.

    Subclasses say what they act on (`regressions`), and how they talk. `own` are the transitions of finished episodes
    (`models.transitions`), `models` the regressions of all stages over what is known (`models.stage_models`). `stage`
    (n,) is how many turns of the running episode an agent has had; `trail_view`, `trail_arm` and `trail_reward` (n, H)
    are what it saw, took and got in them.

    An agent in stage h takes the first arm with the highest index <w_h, phi> + beta ||phi||_{L_h^-1}. Value iteration
    cuts indices off at the largest value there can be; where several arms are at that cut, which are ties to it, the
    choice goes by the index.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *("own", "models", "features", "stage", "trail_view", "trail_arm", "trail_reward"),
    )

    def __init__(self, features: Features, own: Transitions, models: StageModels, beta: float) -> None:
        length = models.length
        n = len(models) // length
        super().__init__(n, length)
        self.features = features
        self.own = own
        self.models = models
        self.beta = beta
        self.trail_view = np.zeros((n, length), dtype=np.int64)
        self.trail_arm = np.zeros((n, length), dtype=np.int64)
        self.trail_reward = np.zeros((n, length))

    @abstractmethod
    def regressions(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """w (n H, d) and L^-1 (n H, d, d), in the rows of `models`, of which those of `who` are up to date. Changes
        nothing of what is kept.
        """
        raise NotImplementedError

    def closed(self, who: IntArray) -> None:
        """`who` have just finished an episode, which is part of `own` and `models` now."""

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`, in the stage it is in."""
        lanes = self._lanes(who, arms)
        weights, inverses = self.regressions(who)
        widths = np.full(len(who), self.beta)
        rows = who * self.length + self.standing(who)
        return decided(who, kernels.pick_optimistic(inverses, weights, widths, rows, lanes))

    def walkers(self) -> Walkers | None:
        """These agents for compiled loops, whatever a subclass does, with room for one more turn of everybody; None
        where features are unknown to them, or an agent was told its stage.
        """
        known = isinstance(self.features, Identity) and type(self.models) is StageModels
        if not known or not self.counting():
            return None
        self.own.make_room()
        views, models = self.own.views, self.models
        seen = views.arms.reshape(-1, models.dim, 1)
        trail = self.stage, self.trail_view, self.trail_arm, self.trail_reward
        return Walkers(views.table, seen, self.own.table, models.arrays(), *trail)

    def tend(self) -> None:
        """See `Population`; room is made when it is asked for, by `walkers`."""
        self.models.refresh()

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        return self.indices(who, arms, self.standing(who))

    def indices(self, who: IntArray, arms: FloatArray, stage: IntArray) -> FloatArray:
        """(w, K) the index of every arm (w, K, d), were each of `who` in that `stage` (w,)."""
        lanes = self._lanes(who, arms)
        weights, inverses = self.regressions(who)
        widths = np.full(len(who), self.beta)
        return kernels.scores_optimistic(inverses, weights, widths, who * self.length + stage, lanes)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One stage of each agent in `who`, or the end of its episode."""
        check_feedback(who, arms, picks, rewards, self._n, self.features.dim)
        if len(who) == 0:
            return
        self.heard(who)
        over = np.logical_not(arms.any(axis=(1, 2)))
        seen = self.features.of(who, arms) + 0.0  # there is no negative zero
        views = self.own.views
        views.make_room(who, 1, arms.shape[1])
        trail = self.stage, self.trail_view, self.trail_arm, self.trail_reward
        done = _walk(views.table, trail, who, np.ascontiguousarray(seen), over, picks, rewards)
        if done.any():
            self._close(who[done], np.full(int(done.sum()), NOTHING))

    def truncate(self, who: IntArray, arms: FloatArray) -> None:
        """See `Population`."""
        check_arms(who, arms, self._n, self.features.dim)
        begun = self.stage[who] > 0
        who, arms = who[begun], arms[begun]
        if len(who):
            self._close(who, self.own.views.intern(who, self.features.of(who, arms)))

    def _close(self, who: IntArray, last: IntArray) -> None:
        """The episodes of `who` are over; `last` (w,) are the views that they were left in."""
        trail = self.stage, self.trail_view, self.trail_arm, self.trail_reward
        at, arm, to, reward = _completed(*trail, who, last)
        self.own.add(at, arm, to, reward, FRESH)
        self.models.visit(at, self.own.views.arms[at // self.length, arm])
        self.stage[who] = 0
        self.closed(who)

    def _lanes(self, who: IntArray, arms: FloatArray) -> FloatArray:
        check_arms(who, arms, self._n, self.features.dim)
        return kernels.as_lanes(self.features.of(who, arms))


@jit
def _walk(
    views: Any, trail: Any, who: IntArray, seen: FloatArray, over: BoolArray, picks: IntArray, rewards: FloatArray
) -> BoolArray:
    """Note one stage of each of `who`, or that its episode is `over`; returns (w,) whose is."""
    done = np.zeros(len(who), np.bool_)
    for i in range(len(who)):
        a = who[i]
        done[i] = trail[0][a] > 0 if over[i] else _walk_one(views, trail, a, seen[i], picks[i], rewards[i])
    return done


@jit_part
def _walk_one(views: Any, trail: Any, a: int, seen: FloatArray, pick: int, reward: float) -> bool:
    """Note one stage of agent a; returns whether it was the last."""
    arms, ends, count, slots = views
    stage, trail_view, trail_arm, trail_reward = trail
    view = find_view(arms[a], ends[a], count[a : a + 1], slots[a], seen)
    h = stage[a]
    trail_view[a, h] = view
    trail_arm[a, h] = (ends[a, view - 1] if view > 0 else 0) + pick
    trail_reward[a, h] = reward
    stage[a] = h + 1
    return bool(h + 1 == trail_view.shape[1])


@jit_part
def _seen(arms: FloatArray, row: int) -> tuple[FloatArray, bool]:
    """(K, d) the arms in `arms[row]` (d, K), as `learn` keeps them, and whether all of them are zero."""
    _, d, count = arms.shape
    seen = np.empty((count, d))
    over = True
    for j in range(d):
        for k in range(count):
            seen[k, j] = arms[row, j, k] + 0.0  # there is no negative zero
            over &= seen[k, j] == 0.0
    return seen, over


@jit_part
def _has_room(views: Any, a: int, count: int) -> bool:
    """Whether agent a can be shown `count` arms that it has never seen."""
    arms, ends, views_of, _ = views
    known = views_of[a]
    used = ends[a, known - 1] if known > 0 else 0
    return bool(known < ends.shape[1] and used + count <= arms.shape[1])


@jit_inside
def walk_on(
    agents: Walkers, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> tuple[bool, bool]:
    """What `EpisodicAgents.learn` does for agent i, which has taken the arm `pick` of `arms[row]` (d, K): whether its
    episode is over, and whether somebody has to `tend` to it or make room.
    """
    seen, over = _seen(arms, row)
    trail = agents.stage, agents.trail_view, agents.trail_arm, agents.trail_reward
    if over:
        done = agents.stage[i] > 0
    else:
        if not _has_room(agents.views, i, len(seen)):
            raise ValueError("a turn shows more arms than the problem says there are")
        done = _walk_one(agents.views, trail, i, seen, pick, reward)
    due = not _has_room(agents.views, i, len(seen))
    if done:
        length, rows = agents.trail_view.shape[1], agents.views[0].shape[1]
        stages = agents.stage[i]
        for h in range(stages):
            at, arm = i * length + h, agents.trail_arm[i, h]
            to = agents.trail_view[i, h + 1] if h + 1 < stages else NOTHING
            due |= not add_one(agents.own, at, arm, to, agents.trail_reward[i, h], FRESH)
            due |= learn_one(agents.models, at, agents.seen, i * rows + arm, 0, 0.0, room)
        agents.stage[i] = 0
    return done, due


@jit_inside
def farthest_one(agents: Walkers, i: int) -> float:
    """The growth of log det V in the stage of agent i where it is largest."""
    length = agents.trail_view.shape[1]
    most: float = agents.models.growth[i * length]
    for h in range(1, length):
        most = max(most, agents.models.growth[i * length + h])
    return most


@jit
def _completed(
    stage: IntArray, trail_view: IntArray, trail_arm: IntArray, trail_reward: FloatArray, who: IntArray, last: IntArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """The transitions of the episodes of `who`, stage by stage: rows agent H + stage, arms, next views and rewards."""
    length = trail_view.shape[1]
    total = 0
    for a in who:
        total += stage[a]
    at, arm, to = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    reward = np.empty(total)
    m = 0
    for i in range(len(who)):
        a = who[i]
        for h in range(stage[a]):
            at[m], arm[m], reward[m] = a * length + h, trail_arm[a, h], trail_reward[a, h]
            to[m] = trail_view[a, h + 1] if h + 1 < stage[a] else last[i]
            m += 1
    return at, arm, to, reward
