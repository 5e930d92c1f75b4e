"""Two worlds: everybody as one population in one process, and everybody alone, reached by bytes.

Both are driven step by step through the same turns of the same world, so that any difference shows at the step where
it arises. Nothing here knows an algorithm; a world needs only the contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.flood import Flood, Letter
from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.environments import Environment, Turn, World
from fedbandits.graphs.network import Faults, Network
from fedbandits.simulation.loop import placed
from fedbandits.transport.carriers import Carrier, InProcess, Serialising, hold
from fedbandits.transport.relay import relay_for

ALONE = np.zeros(1, dtype=np.int64)


def bound(wire: Wire, algorithm: Algorithm, problem: Problem) -> Wire:
    """`wire`, bound to what `algorithm` declares for `problem`."""
    return wire.speaking(algorithm.about.says, sizes_of(algorithm, problem))


@dataclass(frozen=True)
class Conditions:
    """What may befall messages on a graph, whether agents may be out of reach, and the seed of all that."""

    faults: Faults = field(default_factory=Faults)
    absences: bool = False
    seed: np.random.SeedSequence = field(default_factory=lambda: np.random.SeedSequence(0))

    @classmethod
    def of(cls, network: Network | None, world: World, seed: np.random.SeedSequence) -> Conditions:
        """As a simulation of `world` on `network` has it."""
        return cls(Faults() if network is None else network.faults, world.turn(0).reachable is not None, seed)


class Together:
    """One population of n, in process."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        seed: np.random.SeedSequence,
        wire: Wire,
        conditions: Conditions | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        self._n = n = problem.agents
        self.agents: Any = algorithm.agents(problem, n, Streams(seed, n))
        self.server: Any = algorithm.server(problem, n)
        self.ledger = Ledger()
        self.wire = bound(wire, algorithm, problem)
        self.carrier: Carrier = InProcess(self.agents, self.ledger, self.wire)
        self.relay = (
            relay_for(problem, conditions.faults, conditions.absences, self.ledger, self.wire, conditions.seed)
            if problem.network is not None
            else None
        )

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        return self.agents.choose(who, arms)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        self.agents.learn(who, arms, picks, rewards)

    def calling(self) -> IntArray:
        return np.flatnonzero(self.agents.calling())

    def talk(self, turn: Turn, step: int) -> IntArray:
        """Give the server the floor, or let peers talk; returns who called."""
        if self.relay is not None:
            self.relay.round(self.agents, turn.who, step, turn.reachable)
            return turn.who
        return _hold(self, turn)

    def states(self) -> list[State]:
        """Every agent's share of the population's snapshot."""
        return [self.agents.share(i) for i in range(self._n)]


class Apart:
    """n populations of one, each with the random stream of its own identity; only bytes pass between them."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        seed: np.random.SeedSequence,
        wire: Wire,
        conditions: Conditions | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        n = problem.agents
        self.agents: list[Any] = [
            algorithm.agents(problem, 1, Streams(seed, identities=np.array([i]))) for i in range(n)
        ]
        self.server: Any = algorithm.server(problem, n)
        self.ledger = Ledger()
        self.wire = bound(wire, algorithm, problem)
        self.carrier = Serialising(self.agents, self.ledger, self.wire)
        self.flood = (
            Flood(
                problem.network,
                problem.ttl,
                conditions.faults,
                conditions.absences,
                problem.arms,
                self.wire,
                conditions.seed,
            )
            if problem.network is not None
            else None
        )
        self._silent = problem.ttl == 0
        self.bytes_crossed = 0

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        picks = [self.agents[i].choose(ALONE, arms[row : row + 1])[0] for row, i in enumerate(who)]
        return np.array(picks, dtype=np.int64)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        for row, i in enumerate(who):
            one = slice(row, row + 1)
            self.agents[i].learn(ALONE, arms[one], picks[one], rewards[one])

    def calling(self) -> IntArray:
        return np.flatnonzero([agent.calling()[0] for agent in self.agents])

    def talk(self, turn: Turn, step: int) -> IntArray:
        if self.flood is not None:
            if not self._silent:
                self._gossip(self.flood, turn, step)
            return turn.who
        return _hold(self, turn)

    @property
    def bytes_seen(self) -> int:
        """Bytes that really crossed, to and from the server or over links."""
        return self.carrier.bytes_seen + self.bytes_crossed

    def states(self) -> list[State]:
        return [agent.share(0) for agent in self.agents]

    def _gossip(self, flood: Flood, turn: Turn, step: int) -> None:
        said = {}
        for i in turn.who:
            message = self.agents[i].say(ALONE)
            if message is not None and len(message.who):
                self.wire.check(message, "peer")
                said[int(i)] = self.wire.encode(message, 0, "peer")
        if said:
            self.ledger.synchronised()
        read, crossed = flood.round(step, said, turn.reachable)
        for letter in crossed:
            kind, arrays = Wire.decode(letter.content)
            message = Message(kind, ALONE, {name: array[None] for name, array in arrays.items()})
            self.ledger.record(message, "peer", self.wire)
            if arrays:  # as on the ledger, signals weigh nothing
                self.bytes_crossed += len(letter.content)
        for i, agent in enumerate(self.agents):
            letters = [letter for to, letter in read if to == i]
            if letters:
                agent.hear(_inbox(letters))


def _hold(side: Together | Apart, turn: Turn) -> IntArray:
    callers = side.calling()
    if turn.reachable is not None:
        callers = callers[turn.reachable[callers]]
    side.carrier.reachable = turn.reachable
    if side.server is not None:
        hold(side.server, callers, side.carrier)
    return callers


def _inbox(letters: list[Letter]) -> Inbox:
    contents = [Wire.decode(letter.content) for letter in letters]
    arrays = {name: np.stack([held[name] for _, held in contents]) for name in contents[0][1]}
    origins = np.array([letter.origin for letter in letters])
    born = np.array([letter.born for letter in letters])
    count = len(letters)
    to, row = np.zeros(count, np.int64), np.arange(count)
    to.flags.writeable = row.flags.writeable = False
    return Inbox(Message(contents[0][0], origins, arrays), born, to, row)


@dataclass(frozen=True, eq=False)
class Step:
    """What one step brought in both worlds; the worlds themselves stand as they were after it."""

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
    world_seed, agent_seed, fate_seed = np.random.SeedSequence(seed).spawn(3)
    world = environment.world(horizon, world_seed)
    problem = placed(world.problem, algorithm, network)
    conditions = Conditions.of(network, world, fate_seed)
    together = Together(algorithm, problem, agent_seed, wire or Wire(), conditions)
    apart = Apart(algorithm, problem, agent_seed, wire or Wire(), conditions)
    for step in range(horizon):
        turn = world.turn(step)
        picks, callers = [], []
        for side in (together, apart):
            chosen = side.choose(turn.who, turn.arms)
            side.learn(turn.who, turn.arms, chosen, world.pay(step, chosen).rewards)
            picks.append(chosen)
            callers.append(side.talk(turn, step))
        yield Step(together, apart, turn, *picks, *callers)


class Recording(InProcess):
    """An in-process carrier that remembers every message, requests and replies in the order they crossed."""

    def __init__(self, agents: Any, ledger: Ledger, wire: Wire) -> None:
        super().__init__(agents, ledger, wire)
        self.crossed: list[tuple[str, Message]] = []

    def _deliver(self, request: Message) -> Message | None:
        self.crossed.append(("down", _copy(request)))
        reply = super()._deliver(request)
        if reply is not None:
            self.crossed.append(("up", _copy(reply)))
        return reply


def _copy(message: Message) -> Message:
    return Message(message.kind, message.who.copy(), {k: np.array(v) for k, v in message.arrays.items()})


@dataclass(frozen=True, eq=False)
class Event:
    """One step of a recorded run, before (`arms`, `picks`, ...) and after (`world`) the conversation."""

    step: int
    who: IntArray
    arms: FloatArray
    picks: IntArray
    rewards: FloatArray
    callers: IntArray
    crossed: list[tuple[str, Message]]
    side: Together


def recorded(
    algorithm: Algorithm,
    environment: Environment,
    horizon: int,
    seed: int = 0,
    *,
    wire: Wire | None = None,
    network: Network | None = None,
    marked: bool = False,
) -> Iterator[Event]:
    """Drive one in-process population and yield, after every step, what happened and what crossed to and from the
    server. `marked` rewards are each off by a little, so that even a click can be told from any other number.
    """
    marks = np.random.default_rng(seed)
    world_seed, agent_seed, fate_seed = np.random.SeedSequence(seed).spawn(3)
    world = environment.world(horizon, world_seed)
    problem = placed(world.problem, algorithm, network)
    side = Together(algorithm, problem, agent_seed, wire or Wire(), Conditions.of(network, world, fate_seed))
    carrier = side.carrier = Recording(side.agents, side.ledger, side.wire)
    for step in range(horizon):
        turn = world.turn(step)
        picks = side.choose(turn.who, turn.arms)
        rewards = world.pay(step, picks).rewards
        if marked:
            rewards = rewards + 1e-3 * marks.random(len(rewards))
        side.learn(turn.who, turn.arms, picks, rewards)
        carrier.crossed.clear()
        callers = side.talk(turn, step)
        yield Event(step, turn.who, turn.arms, picks, rewards, callers, list(carrier.crossed), side)
