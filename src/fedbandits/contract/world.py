"""What the simulator needs of an environment: parameters that can make a world from a seed.

A world is a pure function of its seed and of what is chosen in it: `turn(t)` shows the same arms to every
algorithm, and the noise `pay(t, picks)` adds belongs to the decision (t, agent), whichever algorithm takes
it. Two algorithms under one seed are therefore compared on common random numbers. Arms are shown in an
order that tells nothing about their value, since exact ties go to the lowest index.

A world may leave room for arms that agents propose (`Turn.room`). Whoever runs it then asks them (`turn_for`): what
they propose replaces the last of the arms of that turn, and is paid like any other.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.compiled import Block
from fedbandits.contract.facts import Truth
from fedbandits.contract.problem import Problem
from fedbandits.contract.room import Proposing, Room
from fedbandits.contract.state import Stateful


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One step: `who` (w,) are awake and see `arms` (w, K, d); `reachable` (n,) can be talked to (None: everybody), and
    `room` is where they may propose arms in place of the last of these (None: nowhere).
    """

    who: IntArray
    arms: FloatArray
    reachable: BoolArray | None = None
    room: Room | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the choices of one step brought, each (w,): the rewards that were observed, and two things nobody sees,
    the pseudo-regrets and the expected reward of a uniformly random choice among the same arms.
    """

    rewards: FloatArray
    regrets: FloatArray
    chance: FloatArray


class World(Stateful):
    """A problem instance with all its randomness fixed.

    A world may move: what it shows may depend on what was chosen in it so far. It then names what it is made up of in
    `keeps` (see `Stateful`), changes it in `pay` alone, and is saved and resumed with the run. Turns are asked for and
    paid in order, each turn once or several times before it is paid.
    """

    problem: Problem
    value_regret: bool = False
    """Whether regrets are V* - Q*: over an episode they add up to what was lost in value, in expectation V* - V^pi."""

    @abstractmethod
    def turn(self, step: int) -> Turn:
        """Who is awake in `step` (0-based), and what they may choose from."""
        raise NotImplementedError

    @abstractmethod
    def pay(self, step: int, picks: IntArray) -> Outcome:
        """The outcome of `picks` (w,) in `step`."""
        raise NotImplementedError

    def offer(self, step: int, proposed: FloatArray) -> None:
        """The agents who are awake in `step` propose (w, slots, d): cut to the room of that turn, this is what `turn`
        shows in place of its last arms until it is paid. What the world keeps does not change by it; it may be offered
        again. Only for turns that have room.
        """
        raise ValueError(f"{type(self).__name__} take no proposals: their turns have no room")

    def block(self, step: int) -> Block | None:
        """Turns beginning at or before `step` that can be played without asking: what `turn` and `pay` would say of
        them, to the last bit. None where there are none, as always unless a subclass says otherwise.
        """
        return None

    def remember(self, size: int) -> None:
        """The same turns will be asked for again, from the first one on: up to `size` bytes of what is drawn may be
        kept until then. Nothing is, unless a subclass says otherwise.
        """

    # what nobody in the world may know, for measuring and for oracles

    def truth(self, step: int = 0) -> Truth | None:
        """Who is alike in `step`; None where there are no clusters."""
        return None

    def parameters(self) -> FloatArray | None:
        """(n, d) the true parameter of each agent, or (1, d) of all; None where there is none."""
        return None

    def mean_rewards(self) -> FloatArray | None:
        """(K,) the mean reward of each arm, where the same K arms are shown at every turn to everybody; else None."""
        return None

    def bayes_regret(self) -> float | None:
        """How much the best of all policies played so far falls short, in the mean over scalarisations of what agents
        earn: E max_pi <v, V^pi> - max_played <v, V^pi>. None where that cannot be told.
        """
        return None

    def portrait(self) -> State:
        """Named arrays for people to look at; see `portrait`. Copies."""
        return {}


def turn_for(world: World, step: int, agents: Proposing) -> Turn:
    """The turn of `step`, with what `agents` propose where there is room for it and they do."""
    turn = world.turn(step)
    if turn.room is None:
        return turn
    proposed = agents.propose(turn.who, turn.arms, turn.room)
    if proposed is None:
        return turn
    world.offer(step, proposed)
    return world.turn(step)


def parts_of(seed: np.random.SeedSequence, count: int) -> list[np.random.SeedSequence]:
    """`count` independent seeds; unlike `seed.spawn`, the same ones at every call."""
    return [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, part)) for part in range(count)]


class Environment(Protocol):
    """A frozen dataclass of parameters."""

    @property
    def about(self) -> AboutEnvironment:
        """Its entry in the catalogue; a class attribute."""

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
