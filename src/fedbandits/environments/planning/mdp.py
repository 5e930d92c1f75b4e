"""Finite Markov decision processes, solved exactly, and the world of agents that live in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World
from fedbandits.environments import attendance
from fedbandits.environments.attendance import Attendance
from fedbandits.linalg.jit import jit_exactly

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
        self._values, self._quality = mdps.best
        self._chances = np.cumsum(mdps.moves, axis=4)
        self._starts = np.cumsum(mdps.starts)
        self._steps = max(1, _BLOCK // problem.agents)
        self._block = -1
        first = np.random.default_rng(seed).random(problem.agents)
        self.place = np.minimum(np.searchsorted(self._starts, first, side="right"), states - 1).astype(np.int64)
        self.stage = np.zeros(problem.agents, dtype=np.int64)

    def turn(self, step: int) -> Turn:
        """Who is awake, and the arms of the states they are in; see `World`."""
        who, there = self._awake(step)
        return Turn(who, self._lanes[self.place[who]].transpose(0, 2, 1), there)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """Rewards and regrets, after which the states are others; see `World`."""
        who, _ = self._awake(step)
        mdps = self.mdps
        return Outcome(
            *_move(
                *(self.place, self.stage, who, self.kinds, picks, self._uniforms[step - self._block * self._steps]),
                *(self._chances, mdps.pays, self._starts, mdps.ends, self._values, self._quality),
            )
        )

    def _awake(self, step: int) -> tuple[IntArray, BoolArray | None]:
        block, at = divmod(step, self._steps)
        if block != self._block:
            key = (*self._seed.spawn_key, block)
            rng = np.random.default_rng(np.random.SeedSequence(self._seed.entropy, spawn_key=key))
            n = self.problem.agents
            self._who = attendance.draw(self._schedule, n, block * self._steps, self._steps, rng)
            self._uniforms = rng.random((self._steps, n, 2))
            if self._presence is not None:
                self._there = rng.random((self._steps, n)) < self._presence
            self._block = block
        who = self._who[at]
        if self._presence is None:
            return who, None
        return who[self._there[at][who]], self._there[at]


@jit_exactly
def _drawn(chances: FloatArray, uniform: float) -> int:
    """The first place at which cumulated `chances` exceed a draw."""
    return min(int(np.searchsorted(chances, uniform, side="right")), len(chances) - 1)


@jit_exactly
def _move(
    state: IntArray,
    stage: IntArray,
    who: IntArray,
    kinds: IntArray,
    picks: IntArray,
    uniforms: FloatArray,
    chances: FloatArray,
    pays: FloatArray,
    starts: FloatArray,
    ends: BoolArray,
    values: FloatArray,
    quality: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rewards, regrets and mean rewards (w,) of `picks`; `state` and `stage` become those of the next turns."""
    rewards, regrets, chance = np.zeros(len(who)), np.zeros(len(who)), np.zeros(len(who))
    length = quality.shape[1]
    for i in range(len(who)):
        a = who[i]
        m, x, h = kinds[a], state[a], stage[a]
        if x == len(ends):  # the turn that says that an episode is over
            state[a], stage[a] = _drawn(starts, uniforms[a, 1]), 0
            continue
        at = min(h, pays.shape[1] - 1)
        rewards[i] = pays[m, at, x, picks[i]]
        regrets[i] = max(values[m, h, x] - quality[m, h, x, picks[i]], 0.0)
        chance[i] = pays[m, at, x].mean()
        into = _drawn(chances[m, at, x, picks[i]], uniforms[a, 0])
        if h + 1 == length:
            state[a], stage[a] = _drawn(starts, uniforms[a, 1]), 0
        else:
            state[a], stage[a] = len(ends) if ends[into] else into, h + 1
    return rewards, regrets, chance
