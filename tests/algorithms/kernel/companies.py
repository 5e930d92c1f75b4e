"""Two algorithms that live through the same history, and one whose bands are held against the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedbandits.contract.ledger import Ledger
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.transport.carriers import InProcess, hold


def side_by_side(algorithms: list[Any], env: Any, horizon: int, seed: int) -> Iterator[Any]:
    """All make the choices of the first, and call and synchronise by themselves, which they have to do at the same
    moments. Yields, turn by turn, what each of them would choose, and what it compares.
    """
    world = env.world(horizon, np.random.SeedSequence(seed))
    n, sides = world.problem.agents, []
    for one in algorithms:
        agents = one.agents(world.problem, n, Streams(np.random.SeedSequence(0), n))
        server = one.server(world.problem, n, Streams(np.random.SeedSequence(0), 1))
        sides.append((agents, server, InProcess(agents, Ledger(), Wire())))
    syncs = 0
    for step in range(horizon):
        turn = world.turn(step)
        scores = [agents.scores(turn.who, turn.arms) for agents, *_ in sides]
        yield [agents.choose(turn.who, turn.arms) for agents, *_ in sides], scores
        picks = scores[0].argmax(axis=1)
        rewards = world.pay(step, picks).rewards
        for agents, *_ in sides:
            agents.learn(turn.who, turn.arms, picks, rewards)
        called = [np.flatnonzero(agents.calling()) for agents, *_ in sides]
        for others in called[1:]:
            np.testing.assert_array_equal(called[0], others)
        for _, server, carrier in sides:
            hold(server, called[0], carrier)
        syncs += len(called[0]) > 0
    assert syncs >= 3, "they did not talk, which shows nothing"


def off_by(algorithm: Any, env: Any, horizon: int, seed: int) -> list[float]:
    """How far means are off at each turn, as a share of the bands, for the agent and arm for which that is most."""
    world = env.world(horizon, np.random.SeedSequence(seed))
    problem, n = world.problem, world.problem.agents
    agents = algorithm.agents(problem, n, Streams(np.random.SeedSequence(0), n))
    server, carrier = algorithm.server(problem, n, None), InProcess(agents, Ledger(), Wire())
    found, talked = [], 0
    for step in range(horizon):
        turn = world.turn(step)
        mean, band = agents._judged(turn.who, turn.arms)
        found.append(float((np.abs(mean - world.means_at(step)) / band).max()))
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        callers = np.flatnonzero(agents.calling())
        hold(server, callers, carrier)
        talked += len(callers) > 0
    assert talked >= 3, "they did not talk, which shows nothing"
    return found
