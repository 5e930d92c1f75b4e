"""Finite Markov decision processes, solved exactly, and the world of agents that live in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import ADDED, Block, pay, show, stands_for, untouched
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World
from fedbandits.environments import attendance
from fedbandits.environments.attendance import Attendance
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_inside, jit_part

_BLOCK = 2**14
"""Numbers drawn at once; part of what a seed means, since every block has its own generator."""


@dataclass(frozen=True, eq=False)
class MDPs:
    """m finite MDPs over the same states and actions, of `length` H.

    `moves` (m, L, S, A, S) are chances of next states and `pays` (m, L, S, A) rewards, for every stage (L = H) or the
    same in all (L = 1); `starts` (S,) are chances of the first state. An episode is over in states that `ends` (S,)
    names, where nothing is earned any more.
    """

    moves: FloatArray
    pays: FloatArray
    starts: FloatArray
    ends: BoolArray
    length: int

    @cached_property
    def best(self) -> tuple[FloatArray, FloatArray]:
        """V* (m, H + 1, S) and Q* (m, H, S, A), by backward induction."""
        quality = np.zeros((len(self.pays), self.length, *self.pays.shape[2:]))
        values = np.zeros((len(self.pays), self.length + 1, len(self.starts)))
        for h in reversed(range(self.length)):
            quality[:, h] = self._ahead(h, values[:, h + 1])
            values[:, h] = np.where(self.ends, 0.0, quality[:, h].max(axis=2))
        return values, quality

    def values(self, policy: IntArray) -> FloatArray:
        """V^pi (m, H + 1, S) of the actions `policy` (m, H, S)."""
        values = np.zeros((len(self.pays), self.length + 1, len(self.starts)))
        for h in reversed(range(self.length)):
            taken = np.take_along_axis(self._ahead(h, values[:, h + 1]), policy[:, h, :, None], axis=2)[..., 0]
            values[:, h] = np.where(self.ends, 0.0, taken)
        return values

    def _ahead(self, stage: int, values: FloatArray) -> FloatArray:
        """(m, S, A) what every action in `stage` is worth, if what comes next is worth `values` (m, S)."""
        at = min(stage, self.pays.shape[1] - 1)
        return np.asarray(self.pays[:, at] + np.einsum("msax,mx->msa", self.moves[:, at], values))


class Dynamics(NamedTuple):
    """Where agents of an `MDPWorld` are, and what becomes of their choices, for compiled functions."""

    place: IntArray
    stage: IntArray
    kinds: IntArray
    chances: FloatArray
    """(m, L, S, A, S) of next states, cumulated; pays, starts (cumulated) and ends are those of `MDPs`."""
    pays: FloatArray
    starts: FloatArray
    ends: BoolArray
    values: FloatArray
    quality: FloatArray
    """V* (m, H + 1, S) and Q* (m, H, S, A)."""


class Moving(NamedTuple):
    """Turns of an `MDPWorld` for compiled loops, with what is drawn for them, `uniforms` (B, n, 2)."""

    dynamics: Dynamics
    uniforms: FloatArray


class MDPWorld(World):
    """Agents in finite MDPs, each in its own episode: `place` (n,) is the state it is in, `stage` (n,) how far.

    Agent i lives in MDP `kinds[i]`; the arms of state x are `features` (S, A, d) of its actions. A decision's regret is
    V*_h(x) - Q*_h(x, a), which in expectation adds up to V* - V^pi over an episode. Where an episode is over before H,
    one turn shows arms that are all zero. What decides where a choice leads belongs to the decision (step, agent).
    """

    keeps: ClassVar[tuple[str, ...]] = ("place", "stage")
    value_regret = True

    def __init__(
        self,
        problem: Problem,
        mdps: MDPs,
        kinds: IntArray,
        features: FloatArray,
        schedule: Attendance,
        seed: np.random.SeedSequence,
        presence: FloatArray | None = None,
    ) -> None:
        self.problem = problem
        self.mdps = mdps
        self.kinds = kinds
        self.features = features
        states, actions, dim = features.shape
        self._lanes = np.zeros((states + 1, dim, actions))
        self._lanes[:states] = features.swapaxes(1, 2)
        self._schedule = schedule
        self._seed = seed
        self._presence = presence
        self._steps = max(1, _BLOCK // problem.agents)
        self._block = -1
        starts = np.cumsum(mdps.starts)
        first = np.random.default_rng(seed).random(problem.agents)
        self.place = np.minimum(np.searchsorted(starts, first, side="right"), states - 1).astype(np.int64)
        self.stage = np.zeros(problem.agents, dtype=np.int64)
        values, quality = mdps.best
        self._dynamics = Dynamics(
            place=self.place,
            stage=self.stage,
            kinds=np.ascontiguousarray(kinds),
            chances=np.ascontiguousarray(np.cumsum(mdps.moves, axis=4)),
            pays=np.ascontiguousarray(mdps.pays),
            starts=starts,
            ends=np.ascontiguousarray(mdps.ends),
            values=values,
            quality=quality,
        )

    def turn(self, step: int) -> Turn:
        """Who is awake, and the arms of the states they are in; see `World`."""
        who, there = self._awake(step)
        return Turn(who, self._lanes[self.place[who]].transpose(0, 2, 1), there)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """Rewards and regrets, after which the states are others; see `World`."""
        who, _ = self._awake(step)
        return Outcome(*_move(self._dynamics, who, picks, self._uniforms[step - self._block * self._steps]))

    def block(self, step: int) -> Block | None:
        """See `World`: where everybody is there. Agents move as the block is played."""
        if self._presence is not None or not untouched(self, MDPWorld, "turn", "pay"):
            return None
        self._awake(step)
        room = np.empty(self._who.shape)
        return Block(
            first=self._block * self._steps,
            who=self._who,
            arms=self._lanes,
            means=np.zeros((1, self._lanes.shape[2])),
            best=room,
            chance=room,
            shocks=room,
            law=ADDED,
            source=Moving(self._dynamics, self._uniforms),
        )

    def _awake(self, step: int) -> tuple[IntArray, BoolArray | None]:
        block, at = divmod(step, self._steps)
        if block != self._block:
            key = (*self._seed.spawn_key, block)
            rng = np.random.default_rng(np.random.SeedSequence(self._seed.entropy, spawn_key=key))
            n = self.problem.agents
            drawn = attendance.draw(self._schedule, n, block * self._steps, self._steps, rng)
            self._who = np.require(drawn, requirements=["C", "W"])
            self._uniforms = rng.random((self._steps, n, 2))
            if self._presence is not None:
                self._there = rng.random((self._steps, n)) < self._presence
            self._block = block
        who = self._who[at]
        if self._presence is None:
            return who, None
        return who[self._there[at][who]], self._there[at]


@jit_part
def _drawn(chances: FloatArray, uniform: float) -> int:
    """The first place at which cumulated `chances` exceed a draw."""
    return min(int(np.searchsorted(chances, uniform, side="right")), len(chances) - 1)


@jit_part
def _move_one(dynamics: Dynamics, i: int, pick: int, leads: float, begins: float) -> tuple[float, float, float]:
    """Reward, regret and mean reward of `pick`, after which agent i is where the uniforms `leads`, or `begins` for an
    episode, take it.
    """
    place, stage, starts, ends = dynamics.place, dynamics.stage, dynamics.starts, dynamics.ends
    m, x, h = dynamics.kinds[i], place[i], stage[i]
    if x == len(ends):  # the turn that says that an episode is over
        place[i], stage[i] = _drawn(starts, begins), 0
        return 0.0, 0.0, 0.0
    at = min(h, dynamics.pays.shape[1] - 1)
    reward = dynamics.pays[m, at, x, pick]
    regret = max(dynamics.values[m, h, x] - dynamics.quality[m, h, x, pick], 0.0)
    chance = dynamics.pays[m, at, x].mean()
    into = _drawn(dynamics.chances[m, at, x, pick], leads)
    if h + 1 == dynamics.quality.shape[1]:
        place[i], stage[i] = _drawn(starts, begins), 0
    else:
        place[i], stage[i] = len(ends) if ends[into] else into, h + 1
    return reward, regret, chance


@jit
def _move(
    dynamics: Dynamics, who: IntArray, picks: IntArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rewards, regrets and mean rewards (w,) of `picks`; places and stages become those of the next turns."""
    dynamics = borrowed(dynamics)
    rewards, regrets, chance = np.zeros(len(who)), np.zeros(len(who)), np.zeros(len(who))
    for a in range(len(who)):
        i = who[a]
        rewards[a], regrets[a], chance[a] = _move_one(dynamics, i, picks[a], uniforms[i, 0], uniforms[i, 1])
    return rewards, regrets, chance


@stands_for(show, Moving)
@jit_inside
def _show(moving: Moving, block: Block, s: int, a: int, i: int) -> int:
    return int(moving.dynamics.place[i])


@stands_for(pay, Moving)
@jit_inside
def _pay(moving: Moving, block: Block, s: int, a: int, i: int, pick: int) -> tuple[float, float]:
    uniforms = moving.uniforms
    reward, regret, block.chance[s, a] = _move_one(moving.dynamics, i, pick, uniforms[s, i, 0], uniforms[s, i, 1])
    return reward, regret
