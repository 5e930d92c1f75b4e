"""Who takes part: any environment, with agents that are awake one at a time, or that come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Truth
from fedbandits.contract.world import Environment, Outcome, Turn, World

Attendance = Literal["as it is", "one at a time", "come and go"]
"""Everybody that the environment wakes; one agent, drawn anew in every step; half of the agents are there seldom, and
whoever is not there neither decides nor can be reached."""
ATTENDANCES: tuple[Attendance, ...] = ("as it is", "one at a time", "come and go")
_SELDOM = 0.4


@dataclass(frozen=True)
class Attended:
    """`environment`, of which only some agents take part in a step."""

    environment: Environment
    attendance: Attendance

    @property
    def about(self) -> AboutEnvironment:
        """That of the environment."""
        return self.environment.about

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        world = self.environment.world(horizon, seed)
        return world if self.attendance == "as it is" else _AttendedWorld(world, self.attendance)


class _AttendedWorld(World):
    """Shows the turns of `world` to some of those who are awake in it; whoever is left out takes its first arm."""

    keeps: ClassVar[tuple[str, ...]] = ("world",)

    def __init__(self, world: World, attendance: Attendance) -> None:
        self.world = world
        self.problem = world.problem
        self.value_regret = world.value_regret
        self._attendance = attendance
        self._drawn: dict[int, BoolArray] = {}

    def turn(self, step: int) -> Turn:
        """The turn of those who take part."""
        turn = self.world.turn(step)
        there, shown = self._there(step), self._shown(step, turn)
        if self._attendance == "one at a time":
            return Turn(turn.who[shown], turn.arms[shown], turn.reachable, turn.room)
        reachable = there if turn.reachable is None else there & turn.reachable
        return Turn(turn.who[shown], turn.arms[shown], reachable, turn.room)

    def offer(self, step: int, proposed: FloatArray) -> None:
        """What those who take part propose; for all others the world's own arms stay."""
        turn = self.world.turn(step)
        both = turn.arms[:, -proposed.shape[1] :].copy()
        both[self._shown(step, turn)] = proposed
        self.world.offer(step, both)

    def pay(self, step: int, picks: IntArray) -> Outcome:
        """The outcome for those who take part."""
        shown = self._shown(step, self.world.turn(step))
        everybody = np.zeros(len(shown), dtype=np.int64)
        everybody[shown] = picks
        outcome = self.world.pay(step, everybody)
        return Outcome(outcome.rewards[shown], outcome.regrets[shown], outcome.chance[shown])

    def truth(self, step: int = 0) -> Truth | None:
        """That of the world."""
        return self.world.truth(step)

    def parameters(self) -> FloatArray | None:
        """Those of the world."""
        return self.world.parameters()

    def mean_rewards(self) -> FloatArray | None:
        """Those of the world."""
        return self.world.mean_rewards()

    def _there(self, step: int) -> BoolArray:
        """(n,) who is there."""
        if step not in self._drawn:
            n = self.problem.agents
            drawn = np.random.default_rng([step, n]).random(n)
            alone, seldom = np.arange(n) == int(drawn[0] * n), (drawn < _SELDOM) | (np.arange(n) % 2 == 0)
            self._drawn[step] = alone if self._attendance == "one at a time" else seldom
        return self._drawn[step]

    def _shown(self, step: int, turn: Turn) -> BoolArray:
        """(w,) which of those who are awake take part."""
        return self._there(step)[turn.who]
