"""What is held to the contract: an algorithm in an environment, and runs of it that several checks share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedbandits.contract.algorithm import Algorithm, wire_of
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Secret, Seeds, Streams, seeds_of
from fedbandits.contract.wire import Wire
from fedbandits.contract.world import Environment, Turn, World, turn_for
from fedbandits.graphs.network import Network
from fedbandits.simulation.loop import Simulation, posed
from fedbandits.testing.attendance import Attendance, Attended
from fedbandits.testing.breach import Breach
from fedbandits.testing.recording import Event, Recording, Retelling, marked, recorded
from fedbandits.testing.worlds import Conditions, Step, Together, two_worlds
from fedbandits.transport.carriers import hold

PIECE = 7
"""Steps that a run in pieces is run at a time."""
BOOKKEEPING = ("updates",)
"""Arrays that tell how a state was reached: how long ago an inverse was computed anew."""


@dataclass(frozen=True)
class Remembered:
    """`environment`, whose worlds are made once for each seed, unless they move.

    A world that keeps nothing is a pure function of the step, so that nobody can tell whether it is shared; that it is
    so is among the promises of environments.
    """

    environment: Environment
    _made: dict[tuple[object, ...], World] = field(default_factory=dict)

    @property
    def about(self) -> AboutEnvironment:
        """That of the environment."""
        return self.environment.about

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""
        key = (horizon, str(seed.entropy), seed.spawn_key)
        if key not in self._made:
            world = self.environment.world(horizon, seed)
            if not isinstance(world, World) or world.state():
                return world
            self._made[key] = world
        return self._made[key]


@dataclass
class Subject:
    """An `algorithm` at work in an `environment`, on a `network` if its agents talk on a graph."""

    algorithm: Algorithm
    environment: Environment
    network: Network | None = None
    horizon: int = 40
    seed: int = 0
    path_dependent: tuple[str, ...] = ()
    """How names of arrays end that depend on the order of events, like iterates: not compared where orders differ."""

    def __post_init__(self) -> None:
        self._remembered = Remembered(self.environment)

    @property
    def name(self) -> str:
        """What the algorithm is called."""
        return self.algorithm.about.name

    @property
    def topology(self) -> str:
        """Whether its agents are "alone", or talk in a "star" or on a "graph"."""
        return self.algorithm.about.topology

    @property
    def ignored(self) -> tuple[str, ...]:
        """How names of arrays end that are not compared where orders of events differ."""
        return (*BOOKKEEPING, *self.path_dependent)

    @cached_property
    def seeds(self) -> Seeds:
        """What the seed stands for."""
        return seeds_of(self.seed)

    def attended(self, attendance: Attendance = "as it is") -> Environment:
        """The environment, of which not everybody may take part."""
        return Attended(self._remembered, attendance)

    def world(self, attendance: Attendance = "as it is") -> World:
        """The world of the run."""
        return self.attended(attendance).world(self.horizon, self.seeds.world)

    @cached_property
    def problem(self) -> Problem:
        """What the algorithm is told of it."""
        return posed(self.world(), self.algorithm, self.network, self.seeds.graph)

    @cached_property
    def wire(self) -> Wire:
        """What it may say."""
        return wire_of(self.algorithm, self.problem)

    def population(self, n: int | None = None) -> Population:
        """Agents that have seen nothing: everybody, or the first n."""
        n = self.problem.agents if n is None else n
        return self.algorithm.agents(self.problem, n, Streams(self.seeds.agents, n, common=self.seeds.common))

    def side(self, attendance: Attendance = "as it is", secret: Secret | None = None) -> Together:
        """Agents and server that have seen nothing."""
        conditions = Conditions.of(self.network, self.world(attendance), self.seeds)
        return Together(self.algorithm, self.problem, self.seeds.agents, None, conditions, secret)

    def simulation(self, seed: int | None = None, wire: Wire | None = None) -> Simulation:
        """A run in the simulator."""
        seed = self.seed if seed is None else seed
        return Simulation(
            self.algorithm, self._remembered, self.horizon, seed, network=self.network, wire=wire or Wire()
        )

    @cached_property
    def finished(self) -> Simulation:
        """A run in the simulator that is over, and that nobody changes any more."""
        run = self.simulation()
        run.run()
        return run

    @cached_property
    def played(self) -> Simulation:
        """As `finished`, by compiled functions where agents and world offer them, and in pieces."""
        run = self.simulation()
        run.compiled = True
        return run_in_pieces(run)

    @cached_property
    def finished_otherwise(self) -> Simulation:
        """As `finished`, under the next seed."""
        run = self.simulation(self.seed + 1)
        run.run()
        return run

    def two_worlds(
        self,
        attendance: Attendance = "as it is",
        *,
        packed: bool = False,
        steps: int | None = None,
        network: Network | None = None,
    ) -> Iterator[Step]:
        """Both worlds, step by step."""
        return two_worlds(
            self.algorithm,
            self.attended(attendance),
            steps or self.horizon,
            self.seed,
            wire=Wire(packed=packed),
            network=network or self.network,
        )

    def recorded(self, attendance: Attendance = "as it is", told: Retelling | None = None) -> Iterator[Event]:
        """A run that is written down."""
        return recorded(
            self.algorithm, self.attended(attendance), self.horizon, self.seed, network=self.network, told=told
        )

    @cached_property
    def events(self) -> list[Event]:
        """A run with rewards that can be told from any other number. `Event.side` is as it was at the end."""
        return list(self.recorded(told=marked(self.problem, self.seed)))


def run_in_pieces(run: Simulation) -> Simulation:
    """`run`, having come to its horizon a few steps at a time."""
    while int(run.at) < run.horizon:
        run.run(PIECE)
    return run


def play(side: Together, world: World, step: int) -> Turn:
    """Let everybody who is awake in `step` decide and learn; returns the turn, after which they may talk."""
    turn = turn_for(world, step, side)
    picks = side.choose(turn.who, turn.arms)
    side.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
    return turn


def converse(side: Together, carrier: Recording) -> Recording:
    """Give the server the floor, with whoever calls, over `carrier`, which remembers what crosses."""
    if side.server is None:
        raise Breach("agents in a star have nobody to talk to", "return a server from server()")
    side.carrier = carrier
    hold(side.server, side.calling(), carrier)
    return carrier
