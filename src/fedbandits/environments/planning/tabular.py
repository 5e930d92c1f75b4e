"""Tables written as linear MDPs: a unit vector for each pair of a state and an action."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.parameters import parameters
from fedbandits.environments.planning.episodic import EpisodicEnvironment, Tables

_SMALL, _LARGE = 0.005, 1.0
"""What RiverSwim pays at its two ends."""
_LURE = 0.01
"""What DeepSea pays in all for never diving."""


@parameters
class Tabular(EpisodicEnvironment):
    """MDPs with S states, A actions and d = S A."""

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """S and A."""

    def _features(self, rng: np.random.Generator) -> FloatArray:
        states, actions = self._sizes()
        return np.eye(states * actions).reshape(states, actions, -1)

    def _any(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        states, actions, _ = features.shape
        return rng.dirichlet(np.ones(states), (1, 1, states, actions)), rng.random((1, 1, states, actions))


@parameters
class RiverSwim(Tabular):
    """A chain of `states` in which it pays a little to let oneself drift to the left bank, and a lot to swim to the
    right one, against the current: a policy that does not plan never gets there.

    To the left leads for certain, and pays 0.005 at the left end. Swimming right takes an agent one state on with
    probability 0.35 (0.6 from the left end) and back with 0.05; it pays 1 at the right end, where it is swept back with
    probability 0.4. Episodes begin at the left end.
    """

    length: Annotated[int, Field(ge=1)] = 20
    states: Annotated[int, Field(ge=2)] = 6

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="riverswim",
        family="planning",
        summary="a chain of states against a current: a small reward at hand, a large one far away",
        source="Strehl & Littman (2008), as in Osband, Russo & Van Roy (NeurIPS 2013)",
    )

    def _sizes(self) -> tuple[int, int]:
        return self.states, 2

    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        last = self.states - 1
        moves, pays = np.zeros((self.states, 2, self.states)), np.zeros((self.states, 2))
        for x in range(self.states):
            moves[x, 0, max(x - 1, 0)] = 1.0
            moves[x, 1, [max(x - 1, 0), x, min(x + 1, last)]] += [0.05, 0.6, 0.35]
        moves[0, 1], moves[last, 1] = 0.0, 0.0
        moves[0, 1, [0, 1]] = 0.4, 0.6
        moves[last, 1, [last - 1, last]] = 0.4, 0.6
        pays[0, 0], pays[last, 1] = _SMALL, _LARGE
        return moves[None, None], pays[None, None]


@parameters
class DeepSea(Tabular):
    """A square of `length` rows and columns through which one sinks, a row each stage, to the left or to the right.

    Only whoever goes right at every single stage finds what pays 1; going left pays 0.01 in all, so that whatever does
    not plan its exploration stays away. The row is the stage, so that states are columns.
    """

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="deep-sea",
        family="planning",
        summary="one way out of 2^H pays, and every step of it looks worse than the other",
        source="Osband, Van Roy, Russo & Wen (JMLR 2019)",
    )

    def _sizes(self) -> tuple[int, int]:
        return max(self.length, 2), 2

    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        width = len(features)
        columns = np.arange(width)
        moves, pays = np.zeros((width, 2, width)), np.zeros((self.length, width, 2))
        moves[columns, 0, np.maximum(columns - 1, 0)] = 1.0
        moves[columns, 1, np.minimum(columns + 1, width - 1)] = 1.0
        pays[:, :, 0] = _LURE / self.length
        pays[-1, self.length - 1, 1] = 1.0
        return np.broadcast_to(moves, (1, self.length, *moves.shape)), pays[None]


@parameters
class RandomMDP(Tabular):
    """Any table: from every state, each of `arms` actions leads to `branches` states drawn for it, with chances that
    are uniform on the simplex, and pays what is uniform in [0, 1] in one state of `paying`, and nothing elsewhere.
    """

    states: Annotated[int, Field(ge=2)] = 10
    arms: Annotated[int, Field(ge=1)] = 4
    branches: Annotated[int, Field(ge=1)] = 3
    paying: Annotated[float, Field(gt=0, le=1)] = 0.3

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="random-mdp",
        family="planning",
        summary="a random table: every action leads to a few states, some of which pay",
        source="after Archibald, McKinnon & Thomas (1995), Garnets",
    )

    def _sizes(self) -> tuple[int, int]:
        return self.states, self.arms

    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        shape, few = (self.states, self.arms), min(self.branches, self.states)
        moves = np.zeros((*shape, self.states))
        into = np.argsort(rng.random((*shape, self.states)), axis=2)[..., :few]
        np.put_along_axis(moves, into, rng.dirichlet(np.ones(few), shape), axis=2)
        pays = rng.random(shape) * (rng.random(self.states) < self.paying)[:, None]
        return moves[None, None], pays[None, None]

    def _limits(self, states: int) -> tuple[FloatArray, BoolArray]:
        return np.full(states, 1 / states), np.zeros(states, dtype=np.bool_)
