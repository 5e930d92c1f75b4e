"""Agents with Q-networks: what they see, what they remember, and how they learn. The only module that needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.streams import Streams
from fedbandits.models.situated import SituatedAgents

if TYPE_CHECKING:
    from fedbandits.algorithms.planning.games.dqn_independent import DQNIndependent

_DECAY = (0.9, 0.999)
"""Of Adam's moments."""


@dataclass(frozen=True)
class Shape:
    """The network's: `arms` K actions, arms of `dim` numbers in `blocks` of one size, and on a `board` convolutions.

    Its parameters lie in one vector, layer by layer, weights before biases.
    """

    arms: int
    dim: int
    blocks: int
    board: tuple[int, int] | None
    filters: int
    kernel: int
    hidden: int

    @property
    def inputs(self) -> int:
        """How many numbers are seen of a state, without the stage."""
        return self.arms * self.dim if self.board is None else 2 * math.prod(self.board)

    @cached_property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of all weights; biases have the first of these sizes."""
        if self.board is None:
            seen: tuple[tuple[int, ...], ...] = ()
            width = self.inputs
        else:
            k = self.kernel
            seen = ((self.filters, 2, k, k), (self.filters, self.filters, k, k))
            width = self.filters * math.prod(self.board)
        return (*seen, (self.hidden, width + 1), (self.arms, self.hidden))

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(math.prod(one) + one[0] for one in self.layers)

    def seen(self, identity: int, arms: FloatArray) -> FloatArray:
        """(K, d) -> (inputs,) what the network is shown of the arms of one agent."""
        if self.board is None:
            return arms.ravel()
        cells = math.prod(self.board)
        leads = arms.reshape(self.arms, self.blocks, -1)[:, :, -cells:].mean(axis=0)
        own = leads[identity]
        return np.concatenate([own, leads.sum(axis=0) - own])

    def values(self, parameters: Any, seen: Any) -> Any:
        """(p,), (b, inputs + 1) -> (b, K) as torch tensors; the last number that is seen is the stage's."""
        import torch
        from torch.nn import functional

        states, stage = seen[:, :-1], seen[:, -1:]
        level = states if self.board is None else states.reshape(-1, 2, *self.board)
        at = 0
        for place, shape in enumerate(self.layers):
            many = math.prod(shape)
            weights, bias = parameters[at : at + many].reshape(shape), parameters[at + many : at + many + shape[0]]
            at += many + shape[0]
            if len(shape) == 4:
                near, far = (self.kernel - 1) // 2, self.kernel // 2  # as many cells come out as went in
                level = functional.pad(level, (near, far, near, far))
                level = functional.relu(functional.conv2d(level, weights, bias))
                continue
            if place == len(self.layers) - 2:
                level = torch.cat([level.flatten(1), stage], dim=1)
                level = functional.relu(functional.linear(level, weights, bias))
            else:
                level = functional.linear(level, weights, bias)
        return level

    def drawn(self, rng: np.random.Generator) -> FloatArray:
        """(p,) parameters to begin with: uniform up to 1 / sqrt(inputs of a unit), as torch has it."""
        parts = []
        for shape in self.layers:
            reach = 1 / math.sqrt(math.prod(shape[1:]))
            parts.append(rng.uniform(-reach, reach, math.prod(shape) + shape[0]))
        return np.concatenate(parts)


class DeepQAgents(SituatedAgents):
    """n agents, each with its network: `weights` (n, p), as they were (`before`), and Adam's moments (`first`,
    `second`).

    `states`, `actions`, `paid`, `next` and `ended` (n, memory, ...) are the last transitions, of which each has `kept`
    (n,) so many in all; `turns` and `steps` (n,) count, `last` (n, inputs + 1), `took` and `got` (n,) are the state,
    the action and the reward that await where they lead; -1 where nothing does.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *("weights", "before", "first", "second", "states", "actions", "paid", "next", "ended"),
        *("kept", "turns", "steps", "stage", "last", "took", "got", "rng"),
    )

    def __init__(self, given: DQNIndependent, shape: Shape, length: int, n: int, rng: Streams) -> None:
        super().__init__(n, length)
        self._given, self._shape = given, shape
        self.rng = rng
        seeds = (rng.uniform(np.arange(n)) * 2**53).astype(np.int64)
        self.weights = np.stack([shape.drawn(np.random.default_rng(seed)) for seed in seeds.tolist()])
        self.before, self.first, self.second = self.weights.copy(), *np.zeros((2, n, shape.size))
        seen = shape.inputs + 1
        self.states, self.next = np.zeros((2, n, given.memory, seen))
        self.actions = np.zeros((n, given.memory), dtype=np.int64)
        self.paid = np.zeros((n, given.memory))
        self.ended = np.zeros((n, given.memory), dtype=np.bool_)
        self.kept, self.turns, self.steps = np.zeros((3, n), dtype=np.int64)
        self.last = np.zeros((n, seen))
        self.took = np.full(n, -1)
        self.got = np.zeros(n)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The best action, or any."""
        best, drawn = self._best(who, arms), self.rng.uniform(who, 2)
        any_action = np.minimum((drawn[:, 1] * arms.shape[1]).astype(np.int64), arms.shape[1] - 1)
        return np.where(drawn[:, 0] < self._restless(who), any_action, best)

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """See `Population`."""
        best, many, restless = self._best(who, arms), arms.shape[1], self._restless(who)
        found = np.tile(restless[:, None] / many, (1, many))
        found[np.arange(len(who)), best] += 1 - restless
        return found

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """The step that led here is complete, and another one has begun; or the episode is over."""
        check_feedback(who, arms, picks, rewards, self._n, self._shape.dim)
        self._check(who, arms)
        self.heard(who)
        for i, a in enumerate(who.tolist()):
            if not arms[i].any():
                self._complete(a, None)
                self.stage[a] = 0
                continue
            seen = self._seen(a, arms[i], int(self.stage[a]))
            self._complete(a, seen)
            self.last[a], self.took[a], self.got[a] = seen, picks[i], rewards[i]
            self.stage[a] += 1
            if self.stage[a] == self.length:
                self._complete(a, None)
                self.stage[a] = 0
            self.turns[a] += 1
            if self.turns[a] % self._given.every == 0 and self.kept[a] >= self._given.batch:
                self._train(a)

    def truncate(self, who: IntArray, arms: FloatArray) -> None:
        """See `Population`: the last step led to a state that is worth what is believed of it."""
        self._check(who, arms)
        for i, a in enumerate(who.tolist()):
            if self.stage[a]:
                self._complete(a, self._seen(a, arms[i], int(self.stage[a])))
                self.stage[a], self.took[a] = 0, -1

    def _complete(self, a: int, seen: FloatArray | None) -> None:
        """Remember the last step of agent `a`, which led to what is `seen`, or to the end."""
        if self.took[a] < 0:
            return
        at = a, int(self.kept[a]) % self._given.memory
        self.states[at], self.actions[at], self.paid[at] = self.last[a], self.took[a], self.got[a]
        self.next[at] = 0.0 if seen is None else seen
        self.ended[at] = seen is None
        self.kept[a] += 1
        self.took[a] = -1

    def _train(self, a: int) -> None:
        """One step of Adam of agent `a`."""
        import torch

        given, shape = self._given, self._shape
        there = min(int(self.kept[a]), given.memory)
        drawn = self.rng.uniform(np.array([a]), given.batch)[0]
        rows = np.minimum((drawn * there).astype(np.int64), there - 1)
        weights = torch.from_numpy(self.weights[a].copy()).requires_grad_()
        with torch.no_grad():
            ahead = shape.values(torch.from_numpy(self.before[a]), torch.from_numpy(self.next[a, rows])).amax(dim=1)
        target = torch.from_numpy(self.paid[a, rows]) + ahead * torch.from_numpy(~self.ended[a, rows])
        values = shape.values(weights, torch.from_numpy(self.states[a, rows]))
        taken = values.gather(1, torch.from_numpy(self.actions[a, rows])[:, None])[:, 0]
        torch.nn.functional.smooth_l1_loss(taken, target).backward()
        self._step(a, weights.grad.numpy())

    def _step(self, a: int, slope: FloatArray) -> None:
        self.steps[a] += 1
        k, (one, two) = int(self.steps[a]), _DECAY
        self.first[a] = one * self.first[a] + (1 - one) * slope
        self.second[a] = two * self.second[a] + (1 - two) * slope**2
        spread = np.sqrt(self.second[a] / (1 - two**k)) + 1e-8
        self.weights[a] -= self._given.rate * (self.first[a] / (1 - one**k)) / spread
        if k % self._given.renew == 0:
            self.before[a] = self.weights[a]

    def _best(self, who: IntArray, arms: FloatArray) -> IntArray:
        import torch

        check_arms(who, arms, self._n, self._shape.dim)
        self._check(who, arms)
        best, stages = np.zeros(len(who), dtype=np.int64), self.standing(who)
        with torch.no_grad():
            for i, a in enumerate(who.tolist()):
                seen = torch.from_numpy(self._seen(a, arms[i], int(stages[i]))[None])
                values = self._shape.values(torch.from_numpy(self.weights[a]), seen).numpy()
                best[i] = int(values[0].argmax())
        return best

    def _restless(self, who: IntArray) -> FloatArray:
        """(w,) with which probability each takes any action."""
        given = self._given
        done = np.minimum(self.turns[who] / given.explore, 1.0)
        return np.asarray(given.begin + (given.end - given.begin) * done)

    def _seen(self, a: int, arms: FloatArray, stage: int) -> FloatArray:
        shown = self._shape.seen(int(self.rng.identities[a]) % self._shape.blocks, arms)
        return np.append(shown, stage / self.length)

    def _check(self, who: IntArray, arms: FloatArray) -> None:
        check_finite("arms", who, arms)
        if len(who) and arms.shape[1] != self._shape.arms:
            raise ValueError(
                f"arms must be {self._shape.arms} for each agent, as the problem says, got {arms.shape[1]}"
            )
