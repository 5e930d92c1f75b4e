"""A deployed federation without a network, beside the simulation that it has to equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.streams import seeds_of
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent, Decision
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.post import Answer, Letter, Presence
from fedbandits.deploy.settings import Settings
from fedbandits.environments import Environment, World
from fedbandits.testing.worlds import Conditions, Together
from fedbandits.transport.carriers import hold

Fate = Literal["delivered", "lost", "unanswered"]
"""What becomes of a letter: it arrives and so does its answer; it never arrives; it arrives, its answer does not."""
AT_ONCE = Patience(ring=0.0, answer=0.05, everybody=None, repeat=0.02)


class DeskPost:
    """A post that goes by calls, with `fate` deciding what happens to each letter; remembers what it carried."""

    def __init__(self, desks: Mapping[int, Desk]) -> None:
        self.desks = dict(desks)
        self.fate: Callable[[int, Letter], Fate] = lambda who, letter: "delivered"
        self.forged: Callable[[int, Letter, Answer], Answer] = lambda who, letter, answer: answer
        self.away: set[int] = set()
        self.quiet: set[int] = set()
        self.carried: list[tuple[int, Letter, Answer]] = []
        self.bytes_seen = 0

    def ring(self, seconds: float) -> Mapping[int, Presence]:
        rung = {who: desk.ring() for who, desk in self.desks.items() if who not in self.away}
        return rung | {who: replace(rung[who], calling=False) for who in self.quiet & rung.keys()}

    def ask(self, letters: Mapping[int, Letter], seconds: float) -> Mapping[int, Answer]:
        answers = {}
        for who, letter in letters.items():
            fate = "lost" if who in self.away else self.fate(who, letter)
            if fate == "lost":
                continue
            answer = self.desks[who].answer(letter)
            self.carried.append((who, letter, answer))
            if fate == "delivered":
                answers[who] = self.forged(who, letter, answer)
                for content in (letter.content, answer.content or b""):
                    self.bytes_seen += len(content) if content and Wire.decode(content)[1] else 0
        return answers


class Federated:
    """What agents know, and the world they are in: that which a simulation under `seed` would see."""

    def __init__(self, algorithm: Algorithm, environment: Environment, horizon: int, seed: int = 0) -> None:
        self.seeds = seeds_of(seed)
        self.new_world = lambda: environment.world(horizon, seeds_of(seed).world)
        self.world: World = self.new_world()
        self.settings = settings_of(algorithm, self.world, seed)


class Deployed(Federated):
    """n agents in files, and their server's book in another."""

    def __init__(
        self, where: Path, algorithm: Algorithm, environment: Environment, horizon: int, seed: int = 0
    ) -> None:
        super().__init__(algorithm, environment, horizon, seed)
        self.where = where
        self.agents = [self.open(identity) for identity in range(self.settings.agents)]
        self.post = DeskPost({identity: Desk(agent) for identity, agent in enumerate(self.agents)})
        self.restart()

    def open(self, identity: int) -> Agent:
        return open_agent(self.where / f"agent-{identity}.db", self.settings, identity)

    def restart(self) -> None:
        """The server is gone; another one takes its place."""
        self.book = Book(self.where / "server.db")
        self.coordinator = Coordinator(self.settings, self.post, self.book, AT_ONCE)

    def live(self, step: int) -> IntArray:
        """Everybody who is awake decides and is rewarded; the choices."""
        return live(self.agents, self.world, step)

    def states(self) -> list[State]:
        return [agent.state() for agent in self.agents]


def live(agents: list[Agent], world: World, step: int) -> IntArray:
    """Everybody who is awake decides and is rewarded, one episode after the other where decisions come in sequence."""
    turn = world.turn(step)
    decisions = [_decision(agents[who], arms) for who, arms in zip(turn.who, turn.arms, strict=True)]
    picks = np.array([0 if decision is None else decision.index for decision in decisions])
    for who, decision, reward in zip(turn.who, decisions, world.pay(step, picks).rewards, strict=True):
        if decision is not None:
            agents[who].reward(decision.id, reward)
    return picks


def _decision(agent: Agent, arms: FloatArray) -> Decision | None:
    """None where an episode is over before it had all its stages."""
    if agent.status().episodes is None:
        return agent.decide(arms)
    if arms.any():
        return agent.decide(arms, episode="running")
    agent.finish("running")
    return None


def settings_of(algorithm: Algorithm, world: World, seed: int) -> Settings:
    """What the agents of a simulation under `seed` know."""
    problem = world.problem
    known = {name: getattr(problem, name) for name in ("dim", "arms", "agents", "horizon", "facts")}
    return Settings(algorithm=algorithm, seed=seed, common=seed, **known)


def open_agent(path: Path, settings: Settings, identity: int, **opening: Any) -> Agent:
    made = {item.name: getattr(settings, item.name) for item in fields(settings)} | {"identity": identity}
    return Agent.open(path, **made, durable=False, warm=False, **opening)


def wait_for(reached: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until `reached`; fails if that takes longer than `seconds`."""
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


class Simulated(Together):
    """The same federation as one population in one process."""

    def __init__(self, deployed: Federated) -> None:
        self.world = deployed.new_world()  # worlds may move
        conditions = Conditions(server=deployed.seeds.server, common=deployed.seeds.common)
        algorithm, problem = deployed.settings.algorithm, deployed.world.problem
        super().__init__(algorithm, problem, deployed.seeds.agents, conditions=conditions)

    def live(self, step: int) -> IntArray:
        turn = self.world.turn(step)
        picks = self.choose(turn.who, turn.arms)
        self.learn(turn.who, turn.arms, picks, self.world.pay(step, picks).rewards)
        return picks

    def converse(self) -> None:
        callers, reachable = self.calling(), self.carrier.reachable
        hold(self.server, callers if reachable is None else callers[reachable[callers]], self.carrier)


def assert_same(deployed: list[State], simulated: list[State]) -> None:
    for there, here in zip(deployed, simulated, strict=True):
        assert there.keys() == here.keys()
        for name, array in here.items():
            np.testing.assert_allclose(there[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


def assert_alike(deployed: Deployed, simulated: Simulated, horizon: int) -> None:
    """Both take the same decisions and say as much, step by step."""
    for step in range(horizon):
        assert deployed.live(step).tolist() == simulated.live(step).tolist()
        deployed.coordinator.step()
        simulated.converse()
        np.testing.assert_array_equal(deployed.coordinator.ledger.counts, simulated.ledger.counts)
