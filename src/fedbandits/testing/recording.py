"""Runs that are written down: what happened in every step, and what crossed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.facts import Range
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import seeds_of
from fedbandits.contract.wire import Direction, Wire
from fedbandits.contract.world import Environment, turn_for
from fedbandits.graphs.network import Network
from fedbandits.simulation.loop import posed
from fedbandits.testing.worlds import Conditions, Together
from fedbandits.transport.carriers import InProcess

Crossed = list[tuple[Direction, Message]]
Retelling = Callable[[int, FloatArray], FloatArray]
"""Step and rewards (w,) -> the rewards (w,) that agents are told instead."""


class Recording(InProcess):
    """An in-process carrier that remembers every message, requests and replies in the order they crossed."""

    def __init__(self, agents: Population, ledger: Ledger, wire: Wire) -> None:
        super().__init__(agents, ledger, wire)
        self.crossed: Crossed = []

    def _deliver(self, request: Message) -> Message | None:
        self.crossed.append(("down", copied(request)))
        reply = super()._deliver(request)
        if reply is not None:
            self.crossed.append(("up", copied(reply)))
        return reply


class Overheard(Population):
    """Peers whose every word is remembered on its way to the relay."""

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """What the agents choose."""
        return self._agents.choose(who, arms)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """Handed on to the agents."""
        self._agents.learn(who, arms, picks, rewards)

    def __init__(self, agents: Population) -> None:
        super().__init__(len(agents))
        self._agents = agents
        self.said: Crossed = []

    def say(self, learned: IntArray) -> Sequence[Message]:
        """What the agents say."""
        messages = self._agents.say(learned)
        self.said += [("peer", copied(message)) for message in messages if len(message.who)]
        return messages

    def hear(self, inbox: Inbox) -> None:
        """Handed on to the agents."""
        self._agents.hear(inbox)


def copied(message: Message) -> Message:
    """`message` as it is now, whatever becomes of its arrays."""
    arrays = {name: np.array(array) for name, array in message.arrays.items()}
    return Message(
        message.kind, message.who.copy(), arrays, {key: held.copy() for key, held in message.lengths.items()}
    )


@dataclass(frozen=True, eq=False)
class Event:
    """One step of a recorded run, before (`arms`, `picks`, ..., `calling`) and after (`side`) the conversation."""

    step: int
    who: IntArray
    arms: FloatArray
    picks: IntArray
    rewards: FloatArray
    calling: BoolArray
    """(n,) who calls, whether or not it can be reached."""
    urgency: FloatArray | None
    callers: IntArray
    crossed: Crossed
    """To and from the server, or what was said to peers, once for each speaker."""
    side: Together


def recorded(
    algorithm: Algorithm,
    environment: Environment,
    horizon: int,
    seed: int = 0,
    *,
    wire: Wire | None = None,
    network: Network | None = None,
    told: Retelling | None = None,
) -> Iterator[Event]:
    """Drive one in-process population and yield, after every step, what happened and what crossed.

    Agents learn the world's rewards, or what is `told` instead.
    """
    seeds = seeds_of(seed)
    world = environment.world(horizon, seeds.world)
    problem = posed(world, algorithm, network, seeds.graph)
    side = Together(algorithm, problem, seeds.agents, wire, Conditions.of(network, world, seeds))
    carrier = side.carrier = Recording(side.agents, side.ledger, side.wire)
    peers = Overheard(side.agents)
    for step in range(horizon):
        turn = turn_for(world, step, side)
        picks = side.choose(turn.who, turn.arms)
        rewards = world.pay(step, picks).rewards
        if told is not None:
            rewards = told(step, rewards)
        side.learn(turn.who, turn.arms, picks, rewards)
        carrier.crossed.clear()
        peers.said.clear()
        calling, urgency = side.agents.calling().copy(), side.agents.urgency()
        if side.relay is not None:
            side.relay.round(peers, turn.who, step, turn.reachable)
            callers = turn.who
        else:
            callers = side.talk(turn, step)
        crossed = carrier.crossed + peers.said
        noted = None if urgency is None else urgency.copy()
        yield Event(step, turn.who, turn.arms, picks, rewards, calling, noted, callers, crossed, side)


def marked(problem: Problem, seed: int = 0) -> Retelling:
    """Rewards that are each off by a little, so that even a click can be told from any other number.

    Where rewards have a range they stay in it.
    """
    rng = np.random.default_rng(seed)
    known = problem.get(Range)

    def told(step: int, rewards: FloatArray) -> FloatArray:
        marks = 1e-3 * rng.random(len(rewards))
        return rewards + marks * (1.0 if known is None else (known.low + known.high) / 2 - rewards)

    return told


def reversed_rewards(problem: Problem) -> Retelling:
    """What was good is bad and the other way round, within the range that rewards have."""
    known = problem.get(Range)

    def told(step: int, rewards: FloatArray) -> FloatArray:
        return -rewards if known is None else known.low + known.high - rewards

    return told
