"""Uniformly random choices: the yardstick of every environment."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams, WordArray
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.untold import drawn


@parameters
class Random:
    """Every agent picks one of the shown arms uniformly at random and learns nothing. Regret grows linearly."""

    about: ClassVar[About] = About(
        name="random",
        family="any",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none: linear regret",
        source="baseline",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> RandomAgents:
        """n agents without memory."""
        return RandomAgents(problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@quiet
class Drawing(NamedTuple):
    """`RandomAgents` for compiled loops."""

    words: WordArray


@stands_for(choose, Drawing)
@jit_inside
def _choose(agents: Drawing, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return drawn(agents.words, i, arms, row)


@stands_for(learn, Drawing)
@jit_inside
def _learn(agents: Drawing, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    return False


class RandomAgents(Population):
    """Agents whose only state is their random stream."""

    keeps: ClassVar[tuple[str, ...]] = ("rng",)

    def __init__(self, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(n)
        self._dim = problem.dim
        self.rng = rng

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """A uniformly random arm for each agent in `who`."""
        check_arms(who, arms, self._n, self._dim)
        check_finite("arms", who, arms)
        return np.asarray(self.rng.uniform(who) * arms.shape[1], dtype=np.float64).astype(np.int64)

    def compiled(self) -> Any:
        """See `Population`."""
        spoken_for = untouched(self, RandomAgents, "choose", "learn", "calling")
        return Drawing(self.rng.words) if spoken_for and untouched(self.rng, Streams, "uniform") else None

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The same for every arm; see `Population`."""
        check_arms(who, arms, self._n, self._dim)
        return np.full(arms.shape[:2], 1.0 / arms.shape[1])

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """Nothing is learned."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
