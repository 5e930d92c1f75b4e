"""Two worlds: everybody as one population in one process, and everybody alone, reached by bytes.

Both are driven step by step through the same turns, each in a world of its own (worlds may move with what is chosen in
them), so that any difference shows at the step where it arises. Nothing here knows an algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedbandits.contract.algorithm import Algorithm, wire_of
from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.room import Room
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Secret, Seeds, Streams, seeds_of
from fedbandits.contract.wire import Wire
from fedbandits.contract.world import Environment, Turn, World, turn_for
from fedbandits.graphs.network import Faults, Network
from fedbandits.simulation.loop import posed
from fedbandits.testing.flood import Flood, FloodedCopy
from fedbandits.transport.carriers import Carrier, InProcess, Serialising, hold
from fedbandits.transport.relay import Relay, relay_for

ALONE = np.zeros(1, dtype=np.int64)
_NOBODY = np.zeros(0, dtype=np.int64)


def _seed() -> np.random.SeedSequence:
    return np.random.SeedSequence(0)


@dataclass(frozen=True)
class Conditions:
    """What may befall messages on a graph, whether agents may be out of reach, and the seeds of all that is not an
    agent's own.
    """

    faults: Faults = field(default_factory=Faults)
    absences: bool = False
    mishaps: np.random.SeedSequence = field(default_factory=_seed)
    server: np.random.SeedSequence = field(default_factory=_seed)
    common: np.random.SeedSequence = field(default_factory=_seed)

    @classmethod
    def of(cls, network: Network | None, world: World, seeds: Seeds) -> Conditions:
        """As a simulation of `world` on `network` has it."""
        faults = Faults() if network is None else network.faults
        return cls(faults, world.turn(0).reachable is not None, seeds.mishaps, seeds.server, seeds.common)


class Together:
    """One population of n, in process."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        seed: np.random.SeedSequence,
        wire: Wire | None = None,
        conditions: Conditions | None = None,
        secret: Secret | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        n = problem.agents
        streams = Streams(seed, n, common=conditions.common, secret=secret)
        self.agents: Population = algorithm.agents(problem, n, streams)
        self.server: Server | None = algorithm.server(
            problem, n, Streams(conditions.server, 1, common=conditions.common)
        )
        self.ledger = Ledger()
        self.wire = wire_of(algorithm, problem, wire)
        self.carrier: Carrier = InProcess(self.agents, self.ledger, self.wire)
        place = problem.get(Place)
        self.relay: Relay | None = None
        if place is not None and algorithm.about.topology == "graph":
            faults, absences = conditions.faults, conditions.absences
            self.relay = relay_for(place, faults, absences, problem.arms, self.ledger, self.wire, conditions.mishaps)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm each of `who` takes."""
        return self.agents.choose(who, arms)

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """The arms that `who` would like to choose from."""
        return self.agents.propose(who, arms, room)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`."""
        self.agents.learn(who, arms, picks, rewards)

    def calling(self) -> IntArray:
        """Who calls."""
        return np.flatnonzero(self.agents.calling())

    def talk(self, turn: Turn, step: int) -> IntArray:
        """Give the server the floor, or let peers talk; returns who called."""
        if self.relay is not None:
            self.relay.round(self.agents, turn.who, step, turn.reachable)
            return turn.who
        return _hold(self, turn)

    def states(self) -> list[State]:
        """Every agent's share of the population's snapshot."""
        return [self.agents.share(i) for i in range(len(self.agents))]

    def state(self) -> State:
        """A snapshot of agents, server, ledger, and what is under way."""
        return {f"{part}.{name}": array for part, held in self._parts().items() for name, array in held.state().items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Become the side that `state` was taken from."""
        for part, held in self._parts().items():
            start = f"{part}."
            held.load({name.removeprefix(start): array for name, array in state.items() if name.startswith(start)})

    def _parts(self) -> dict[str, Population | Server | Ledger | Relay]:
        parts = {"agents": self.agents, "server": self.server, "ledger": self.ledger, "relay": self.relay}
        return {name: part for name, part in parts.items() if part is not None}


class Apart:
    """n populations of one, each with the random stream of its own identity; only bytes pass between them."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        seed: np.random.SeedSequence,
        wire: Wire | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        n, common = problem.agents, conditions.common
        self.agents: list[Population] = [
            algorithm.agents(problem, 1, Streams(seed, identities=np.array([i]), common=common)) for i in range(n)
        ]
        self.server: Server | None = algorithm.server(problem, n, Streams(conditions.server, 1, common=common))
        self.ledger = Ledger()
        self.wire = wire_of(algorithm, problem, wire)
        self.carrier = Serialising(self.agents, self.ledger, self.wire)
        self.floods: dict[str, Flood] = {}
        """By kind of message, in declared order."""
        place = problem.get(Place)
        self._on_a_graph = place is not None and algorithm.about.topology == "graph"
        self._silent = place is None or place.hops == 0
        if place is not None and self._on_a_graph:
            spoken = [item.kind for item in self.wire.utterances or () if item.direction == "peer"]
            for order, kind in enumerate(spoken):
                self.floods[kind] = Flood(
                    place.graph,
                    place.hops,
                    conditions.faults,
                    conditions.absences,
                    problem.arms,
                    self.wire,
                    conditions.mishaps,
                    order,
                )
        self._bytes_crossed = 0

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm each of `who` takes."""
        picks = [self.agents[i].choose(ALONE, arms[row : row + 1])[0] for row, i in enumerate(who)]
        return np.array(picks, dtype=np.int64)

    def propose(self, who: IntArray, arms: FloatArray, room: Room) -> FloatArray | None:
        """The arms that `who` would like to choose from."""
        both = arms[:, -room.slots :].copy()
        for row, i in enumerate(who):
            proposed = self.agents[i].propose(ALONE, arms[row : row + 1], room)
            if proposed is not None:
                both[row] = proposed[0]
        return both

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`."""
        for row, i in enumerate(who):
            one = slice(row, row + 1)
            self.agents[i].learn(ALONE, arms[one], picks[one], rewards[one])

    def calling(self) -> IntArray:
        """Who calls."""
        return np.flatnonzero([agent.calling()[0] for agent in self.agents])

    def talk(self, turn: Turn, step: int) -> IntArray:
        """Give the server the floor, or let peers talk; returns who called."""
        if self._on_a_graph:
            if not self._silent:
                self._gossip(turn, step)
            return turn.who
        return _hold(self, turn)

    @property
    def bytes_seen(self) -> int:
        """Bytes that really crossed, to and from the server or over links."""
        return self.carrier.bytes_seen + self._bytes_crossed

    def states(self) -> list[State]:
        """Every agent's snapshot."""
        return [agent.share(0) for agent in self.agents]

    def _gossip(self, turn: Turn, step: int) -> None:
        said: dict[str, dict[int, bytes]] = {kind: {} for kind in self.floods}
        learned = set(turn.who.tolist())
        for i, agent in enumerate(self.agents):
            for message in agent.say(ALONE if i in learned else _NOBODY):
                self.wire.check(message, "peer")
                if len(message.who):
                    said[message.kind][i] = self.wire.encode(message, 0, "peer")
        if any(said.values()):
            self.ledger.synchronised()
        read: dict[str, list[tuple[int, FloodedCopy]]] = {}
        for kind, flood in self.floods.items():
            read[kind], crossed = flood.round(step, said[kind], turn.reachable)
            for content, copies in Counter(letter.content for letter in crossed).items():
                arrays = Wire.decode(content)[1]
                message = self.wire.gathered(kind, ALONE, [arrays], "peer")
                self.ledger.record(message, "peer", self.wire, np.array([copies]))
                if arrays:  # as on the ledger, signals weigh nothing
                    self._bytes_crossed += copies * len(content)
        for i, agent in enumerate(self.agents):
            for kind, letters in read.items():
                own = [letter for to, letter in letters if to == i]
                if own:
                    agent.hear(self._inbox(kind, own))

    def _inbox(self, kind: str, letters: list[FloodedCopy]) -> Inbox:
        origins = np.array([letter.origin for letter in letters])
        born = np.array([letter.born for letter in letters])
        to, row = np.zeros(len(letters), np.int64), np.arange(len(letters))
        to.flags.writeable = row.flags.writeable = False
        shares = [Wire.decode(letter.content)[1] for letter in letters]
        return Inbox(self.wire.gathered(kind, origins, shares, "peer"), born, to, row)


def _hold(side: Together | Apart, turn: Turn) -> IntArray:
    callers = side.calling()
    if turn.reachable is not None:
        callers = callers[turn.reachable[callers]]
    side.carrier.reachable = turn.reachable
    if side.server is not None:
        hold(side.server, callers, side.carrier)
    return callers


@dataclass(frozen=True, eq=False)
class Step:
    """What one step brought in both worlds; the worlds themselves stand as they were after it."""

    at: int
    together: Together
    apart: Apart
    turn: Turn
    picks: IntArray
    picks_apart: IntArray
    callers: IntArray
    callers_apart: IntArray


def two_worlds(
    algorithm: Algorithm,
    environment: Environment,
    horizon: int,
    seed: int = 0,
    *,
    wire: Wire | None = None,
    network: Network | None = None,
) -> Iterator[Step]:
    """Drive both worlds through one run, each on its own choices, and yield after every step."""
    seeds = seeds_of(seed)
    worlds = [environment.world(horizon, seeds.world) for _ in range(2)]
    problem = posed(worlds[0], algorithm, network, seeds.graph)
    conditions = Conditions.of(network, worlds[0], seeds)
    together = Together(algorithm, problem, seeds.agents, wire, conditions)
    apart = Apart(algorithm, problem, seeds.agents, wire, conditions)
    for step in range(horizon):
        picks, callers = [], []
        sides: list[Together | Apart] = [together, apart]
        for side, world in zip(sides, worlds, strict=True):
            turn = turn_for(world, step, side)
            chosen = side.choose(turn.who, turn.arms)
            side.learn(turn.who, turn.arms, chosen, world.pay(step, chosen).rewards)
            picks.append(chosen)
            callers.append(side.talk(turn, step))
        yield Step(step, together, apart, turn, picks[0], picks[1], callers[0], callers[1])
