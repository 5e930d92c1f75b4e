"""An algorithm whose messages go through stages: itself an algorithm, run, metered and deployed like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedbandits.channel.ends import Ends
from fedbandits.channel.stage import End, Stage
from fedbandits.channel.staged import BlindAgents, StagedAgents, StagedServer, heard
from fedbandits.contract.algorithm import Algorithm, posed_by, sizes_of
from fedbandits.contract.catalogue import About
from fedbandits.contract.description import describe
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction


@dataclass(frozen=True)
class Through:
    """`algorithm`, whose messages go through `stages`, the first of them next to it.

    >>> from fedbandits.algorithms import DisLinUCB
    >>> from fedbandits.channel import Quantise
    >>> Through(DisLinUCB(threshold=2.0), (Quantise(bits=8),)).about.name
    'dislinucb|quantise'
    """

    algorithm: Algorithm
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("through: no stage is given; leave it out, or name one, as in quantise:bits=8")
        needing, hiding = ([stage.about.name for stage in self.stages if stage.about.rows == rows] for rows in _AT_ODDS)
        if needing and hiding:
            raise ConfigError(
                f"through: {needing[0]} looks at what each agent sends, and {hiding[0]} hides that; leave one out"
            )
        self.about  # noqa: B018  refuses stages that cannot serve the algorithm

    @cached_property
    def about(self) -> About:
        """The algorithm's entry in the catalogue, as the stages leave it."""
        return self._layers[-1]

    @cached_property
    def _layers(self) -> list[About]:
        """What is said before the first stage, and after each of them."""
        layers = [self.algorithm.about]
        for stage in self.stages:
            layers.append(stage.declares(layers[-1]))
        return layers

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        """n agents, and the stages' ends at their side."""
        posed = self._posed(problem)
        inner, ends = self.algorithm.agents(posed, n, rng), Ends(self._ends("up", problem, n, rng))
        if not ends.blind:
            return StagedAgents(inner, ends, problem.dim)
        acting = self.algorithm.agents(posed, n, rng.apart("acting"))
        return BlindAgents(inner, acting, ends, problem.dim, rng.apart("untold"))

    def server(self, problem: Problem, n: int, rng: Streams) -> Server | None:
        """The server, and the stages' ends at its side."""
        inner = self.algorithm.server(self._posed(problem), n, rng)
        return None if inner is None else StagedServer(inner, Ends(self._ends("down", problem, n, rng)))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The sizes that declared shapes name."""
        return sizes_of(self.algorithm, self._posed(problem))

    def described(self) -> dict[str, Any]:
        """The algorithm in plain values, and what it goes through."""
        return {**describe(self.algorithm), "through": [describe(stage) for stage in self.stages]}

    def opened(self, problem: Problem, message: Message, direction: Direction) -> Message:
        """What the algorithm itself will be told where `message`, which goes in `direction`, arrives first of all."""
        return heard(Ends(self._ends("down" if direction == "up" else "up", problem, 1, _NOBODY)), message)

    def _posed(self, problem: Problem) -> Problem:
        problem = posed_by(self.algorithm, problem)
        for stage in self.stages:
            problem = stage.poses(problem)
        return problem

    def _ends(self, away: Direction, problem: Problem, n: int, rng: Streams) -> list[End]:
        sizes, posed = self.sizes(problem), self._posed(problem)
        return [
            stage.ends(said.says, away, n, sizes, rng.apart("stage", place), posed)
            for place, (stage, said) in enumerate(zip(self.stages, self._layers, strict=False))
        ]


_AT_ODDS = ("needs", "hides")
_NOBODY = Streams(np.random.SeedSequence(0), 1)


def through(algorithm: Algorithm, stages: Sequence[Stage]) -> Algorithm:
    """`algorithm` with its messages going through `stages`; itself where there are none."""
    if not stages:
        return algorithm
    if isinstance(algorithm, Through):
        return Through(algorithm.algorithm, (*algorithm.stages, *stages))
    return Through(algorithm, tuple(stages))
