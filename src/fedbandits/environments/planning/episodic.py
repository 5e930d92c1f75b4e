"""What environments with episodes have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Episodes, Fact, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import parts_of
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.linear import presences
from fedbandits.environments.planning.mdp import MDPs, MDPWorld

Tables = tuple[FloatArray, FloatArray]
"""Chances of next states (m, L, S, A, S) and rewards (m, L, S, A) of m MDPs, in all stages or in each."""


@parameters
class EpisodicEnvironment:
    """`clients` agents in episodes of `length` H; subclasses say in which MDPs, and what is shown of states.

    With a `deviation` xi every agent has an MDP of its own: (1 - xi) times the common one and xi times one that is
    drawn for it, in chances and in rewards, so that any two of them are at most xi apart in both. In every state
    actions come in an order of their own, the same for all agents. A share `stragglers` of the agents is there in a
    step only with probability `presence`; their episodes wait for them.
    """

    clients: Annotated[int, Field(ge=1)] = 20
    length: Annotated[int, Field(ge=1)] = 10
    deviation: Annotated[float, Field(ge=0, le=1)] = 0.0
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment]

    def world(self, horizon: int, seed: np.random.SeedSequence) -> MDPWorld:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        features = self._features(rng)
        states, actions, dim = features.shape
        moves, pays = self._tables(features, rng)
        if self.deviation:
            others = [self._any(features, rng) for _ in range(self.clients)]
            moves = (1 - self.deviation) * moves + self.deviation * np.concatenate([one for one, _ in others])
            pays = (1 - self.deviation) * pays + self.deviation * np.concatenate([one for _, one in others])
        order = rng.permuted(np.tile(np.arange(actions), (states, 1)), axis=1)
        rows = np.arange(states)[:, None]
        starts, ends = self._limits(states)
        mdps = MDPs(moves[:, :, rows, order], pays[:, :, rows, order], starts, ends, self.length)
        shown = features[rows, order]
        known = Problem(agents=self.clients, dim=dim, arms=actions, horizon=horizon).knowing(
            Episodes(self.length),
            Noise(0.0),
            Norms(parameter=float(np.sqrt(dim)), arms=float(np.linalg.norm(features, axis=2).max())),
            Range(0.0, 1.0),
            *self._facts(),
        )
        presence = presences(self.clients, self.stragglers, self.presence, rng)
        kinds = np.arange(self.clients) % len(pays)
        return MDPWorld(known, mdps, kinds, shown, self.schedule, turns, presence)

    @abstractmethod
    def _features(self, rng: np.random.Generator) -> FloatArray:
        """(S, A, d) what is shown of each action in each state."""

    @abstractmethod
    def _tables(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        """The MDP that agents have in common (m = 1), or one for each of them."""

    @abstractmethod
    def _any(self, features: FloatArray, rng: np.random.Generator) -> Tables:
        """Any MDP with these features: what an agent's own deviates towards."""

    def _limits(self, states: int) -> tuple[FloatArray, BoolArray]:
        """Chances of first states (S,), and in which states episodes are over (S,): the first one, and none."""
        return np.eye(states)[0], np.zeros(states, dtype=np.bool_)

    def _facts(self) -> tuple[Fact, ...]:
        """What else is known."""
        return ()
