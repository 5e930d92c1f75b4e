"""Worlds whose mean rewards are a smooth function of the arm: what their environments have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Fact
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import World, parts_of
from fedbandits.environments.arms import ArmSource, GivenArms
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.laws import Law
from fedbandits.environments.linear import LinearWorld, presences


class FunctionWorld(LinearWorld):
    """Mean rewards are f(x), f being the same for all agents and known to the source of the arms; there is no theta."""

    def parameters(self) -> FloatArray | None:
        """None: no agent can know all of f."""
        return None

    def mean_rewards(self) -> FloatArray | None:
        """Those of the candidates, where there are any; see `World`."""
        return self._source.values.copy() if isinstance(self._source, GivenArms) else None


@parameters
class Smooth(ABC):
    """`clients` agents with one function f in common, each of whom sees `arms` arms at every turn: new ones, unless
    a subclass says otherwise.

    A share `stragglers` of the agents, chosen at random, is there in a step only with probability `presence`.
    """

    clients: Annotated[int, Field(ge=1)] = 20
    arms: Annotated[int, Field(ge=1)] = 25
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment]

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        source, dim = self._source(rng)
        sizes = Problem(agents=self.clients, dim=dim, arms=self.arms, horizon=horizon)
        problem = sizes.knowing(*self._facts(source))
        presence = presences(self.clients, self.stragglers, self.presence, rng)
        world = FunctionWorld(problem, np.zeros((1, 0)), source, self.schedule, turns, self._law(), presence)
        return self._moved(world, rng)

    def _moved(self, world: FunctionWorld, rng: np.random.Generator) -> World:
        """What becomes of the instance: itself, unless what it shows depends on what is chosen in it."""
        return world

    @abstractmethod
    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        """Where arms of the instance come from, and their dimension."""

    @abstractmethod
    def _law(self) -> Law:
        """How mean rewards become observed ones."""

    @abstractmethod
    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        """What agents are told of the instance."""
