"""Three kinds of randomness, each for what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.streams import Secret, Seeds, Streams
from fedbandits.contract.world import turn_for
from fedbandits.testing.breach import difference, require
from fedbandits.testing.subject import Subject, play
from fedbandits.testing.worlds import Together

Occasion = tuple[str | int, ...]


class _Watched(Streams):
    """Streams that remember for which occasions common numbers were drawn."""

    def __init__(self, seeds: Seeds, identities: IntArray) -> None:
        super().__init__(seeds.agents, identities=identities, common=seeds.common)
        self.asked: set[Occasion] = set()

    def common(self, *occasion: str | int) -> np.random.Generator:
        self.asked.add(occasion)
        return super().common(*occasion)


class _Noted(Secret):
    """Secret draws of a counter, which are part of the snapshot, and how often there were any."""

    keeps: ClassVar[tuple[str, ...]] = ("drawn",)

    def __init__(self, n: int) -> None:
        self.drawn = np.zeros(n, dtype=np.int64)

    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        numbers = np.empty((len(who), 1 if size is None else size))
        for row, agent in enumerate(who):
            numbers[row] = np.random.default_rng([int(agent), int(self.drawn[agent])]).random(numbers.shape[1])
        self.drawn[who] += 1
        return numbers[:, 0] if size is None else numbers


def common(subject: Subject) -> None:
    """On every occasion an agent alone asks for the same common numbers as in the population."""
    seeds, n = subject.seeds, subject.problem.agents
    whole = _Watched(seeds, np.arange(n))
    alone = [_Watched(seeds, np.array([i])) for i in range(n)]
    joint = subject.algorithm.agents(subject.problem, n, whole)
    single = [subject.algorithm.agents(subject.problem, 1, streams) for streams in alone]
    world = subject.world()
    for step in range(min(subject.horizon, 5)):
        turn = turn_for(world, step, joint)
        picks = joint.choose(turn.who, turn.arms)
        rewards = world.pay(step, picks).rewards
        joint.learn(turn.who, turn.arms, picks, rewards)
        for row, agent in enumerate(turn.who):
            one, first = slice(row, row + 1), np.zeros(1, dtype=np.int64)
            single[agent].choose(first, turn.arms[one])
            single[agent].learn(first, turn.arms[one], picks[one], rewards[one])
    told = set().union(*(streams.asked for streams in alone))
    require(
        whole.asked == told,
        f"the population draws common numbers for {_shown(whole.asked - told)}, agents alone for "
        f"{_shown(told - whole.asked)}",
    )


def _shown(occasions: set[Occasion]) -> str:
    listed: Sequence[Occasion] = sorted(occasions, key=str)[:3]
    return ", ".join(map(str, listed)) or "nothing more"


def secret(subject: Subject) -> None:
    """Who is declared private draws noise from `rng.secret`, which is part of its snapshot; nobody else does."""
    first, noise = _private(subject)
    second, other = _private(subject)
    worlds = [subject.world() for _ in range(2)]
    for step in range(subject.horizon):
        for side, world in zip((first, second), worlds, strict=True):
            side.talk(play(side, world, step), step)
        if step == subject.horizon // 2:
            fresh, other = _private(subject)
            fresh.load(second.state())
            second = fresh
    drawn = int(noise.drawn.sum())
    private = subject.algorithm.about.private
    require(drawn == 0 or private, f"{drawn} secret draws, and about.private is False")
    require(
        drawn > 0 or not private,
        "about.private is True, and nothing was drawn from rng.secret",
        "draw noise that protects people from rng.secret: a deployed agent has it from the operating system",
    )
    found = difference(first.state(), second.state())
    require(
        not found and np.array_equal(noise.drawn, other.drawn),
        f"a run that was stopped and continued draws other noise: {found or 'not as often'}",
        "name the Streams in keeps, so that what was drawn is part of the snapshot",
    )


def _private(subject: Subject) -> tuple[Together, _Noted]:
    """Agents and server that have seen nothing, with secret draws of their own."""
    noise = _Noted(subject.problem.agents)
    return subject.side(secret=noise), noise
