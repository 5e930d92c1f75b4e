"""A small game that can be solved exactly: a table over joint actions."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Episodes, Game, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import FRONT, RETURNS
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import Outcome, Turn, World, parts_of

_PREFERENCES = 256
"""Scalarisations over which the Bayes regret is a mean."""
_SHOWN = 200
"""Returns of how many episodes are kept to be looked at, the last ones."""


@parameters
class TeamMDP:
    """`clients` agents in one of `states` states, the same for all, with `arms` actions each: a table over the joint
    actions says where they lead and what they pay, each agent something else.

    Where each joint action leads, and what it pays each agent, in [0, 1], is drawn at random; every agent has actions
    that pay itself at others' expense, so that there is no policy that is best for all. Everything is deterministic,
    and every episode begins in the first state: what a policy is worth to each is what it earns in one episode. In an
    agent's block (the fact `Game`) both parts are the unit vector of the state and its own action.

    A decision's regret is that of the mean of all agents' rewards, V* - Q* of the joint action; `bayes_regret` is that
    of the set of all policies played so far, over scalarisations that are uniform on the simplex.
    """

    clients: Annotated[int, Field(ge=1, le=8)] = 2
    states: Annotated[int, Field(ge=1)] = 3
    arms: Annotated[int, Field(ge=1)] = 2
    length: Annotated[int, Field(ge=1)] = 4

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="team-mdp",
        family="planning",
        summary="a small game of few agents with rewards of their own, solved exactly: Pareto front and Bayes regret",
        source="setting of Dubey (2022), thesis, section 10.2, as a table",
    )

    def world(self, horizon: int, seed: np.random.SeedSequence) -> TeamWorld:
        """The instance that `seed` stands for."""
        rng = np.random.default_rng(parts_of(seed, 1)[0])
        n, size = self.clients, self.states * self.arms
        joint = np.array(list(itertools.product(range(self.arms), repeat=n)))
        leads = rng.integers(self.states, size=(self.states, len(joint)))
        pays = rng.random((self.states, len(joint), n))
        pays /= pays.sum(axis=2, keepdims=True)  # what one gets, others do not
        pays *= rng.random((self.states, len(joint), 1)) ** 0.25
        problem = Problem(agents=n, dim=2 * n * size, arms=self.arms, horizon=horizon).knowing(
            Episodes(self.length),
            Game(size),
            Noise(0.0),
            Norms(arms=float(np.sqrt(2 * n))),
            Range(0.0, 1.0),
        )
        return TeamWorld(problem, joint, leads, pays, self.length)


class TeamWorld(World):
    """A game with joint actions `joint` (J, n), where they lead (S, J) and what they `pay` (S, J, n).

    `place` () is the state, `stage` () how far the episode is, `earned` (n,) what each has earned in it; `found` (256,)
    is the largest scalarised return so far for each of the scalarisations of `bayes_regret`, and `returns` (200, n)
    are those of the last whole episodes, newest last, of which `episode` () counts all.
    """

    keeps: ClassVar[tuple[str, ...]] = ("place", "stage", "earned", "found", "returns", "episode")
    value_regret = True

    def __init__(self, problem: Problem, joint: IntArray, leads: IntArray, pays: FloatArray, length: int) -> None:
        self.problem = problem
        self.joint = joint
        self.leads = leads
        self.pays = pays
        self.length = length
        n, actions = problem.agents, problem.arms
        size = len(leads) * actions
        half = np.eye(size).reshape(len(leads), actions, size)
        block = np.concatenate([half, half], axis=2)
        self._arms = np.tile(block, (1, 1, n))
        self._radix = actions ** np.arange(n)[::-1]
        self._values, self._quality = self.solved(np.full(n, 1 / n))
        self._preferences = np.random.default_rng(0).dirichlet(np.ones(n), _PREFERENCES)
        self._best = np.array([self.solved(weights)[0][0, 0] for weights in self._preferences])
        self.place = np.zeros((), dtype=np.int64)
        self.stage = np.zeros((), dtype=np.int64)
        self.episode = np.zeros((), dtype=np.int64)
        self.earned = np.zeros(n)
        self.found = np.zeros(_PREFERENCES)
        self.returns = np.zeros((_SHOWN, n))

    def turn(self, step: int) -> Turn:
        """Everybody, in the same state; see `World`."""
        n = self.problem.agents
        return Turn(np.arange(n), np.broadcast_to(self._arms[self.place], (n, *self._arms.shape[1:])).copy())

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """What the joint action pays; see `World`."""
        action, x, h = int(picks @ self._radix), int(self.place), int(self.stage)
        rewards = self.pays[x, action].copy()
        lost = max(self._values[h, x] - self._quality[h, x, action], 0.0)
        chance = self.pays[x].mean(axis=0)
        self.earned += rewards
        self.place[...] = self.leads[x, action]
        self.stage += 1
        if self.stage == self.length:
            np.maximum(self.found, self._preferences @ self.earned, out=self.found)
            self.returns[:-1] = self.returns[1:]
            self.returns[-1] = self.earned
            self.episode += 1
            self.place[...] = self.stage[...] = 0
            self.earned[:] = 0.0
        return Outcome(rewards, np.full(len(picks), lost), chance)

    def solved(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """V* (H + 1, S) and Q* (H, S, J) where a joint action is worth `weights` (n,) times what it pays."""
        values, quality = np.zeros((self.length + 1, len(self.leads))), np.zeros((self.length, *self.leads.shape))
        for h in reversed(range(self.length)):
            quality[h] = self.pays @ weights + values[h + 1][self.leads]
            values[h] = quality[h].max(axis=1)
        return values, quality

    def bayes_regret(self) -> float | None:
        """See `World`: exact, up to the scalarisations it is a mean over."""
        return float((self._best - self.found).mean()) if self.episode else None

    def front(self) -> FloatArray:
        """(k, n) the returns of policies of which no other is better for all, by exhaustion over the reachable ones.

        Sets of returns are built backwards, and what is dominated is dropped on the way: with deterministic moves, what
        is dominated from a state on is so from the start.
        """
        ahead = [np.zeros((1, self.problem.agents))] * len(self.leads)
        for _ in range(self.length):
            ahead = [
                undominated(np.concatenate([self.pays[x, j] + ahead[self.leads[x, j]] for j in range(len(self.joint))]))
                for x in range(len(self.leads))
            ]
        return ahead[0]

    def portrait(self) -> State:
        """Of two agents the Pareto front, and what the last episodes returned; see `portrait`."""
        if self.problem.agents != 2:
            return {}
        return {FRONT: self.front(), RETURNS: self.returns[_SHOWN - min(int(self.episode), _SHOWN) :].copy()}


def undominated(points: FloatArray) -> FloatArray:
    """Those of `points` (m, n) that no other is at least as good as in everything, each once, in order.

    >>> undominated(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    points = np.unique(points, axis=0)
    worse = (points[:, None] <= points[None]).all(axis=2) & ~np.eye(len(points), dtype=np.bool_)
    return np.asarray(points[~worse.any(axis=1)])
