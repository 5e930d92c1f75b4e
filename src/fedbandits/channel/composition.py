"""Algorithms that are others through stages, under names of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from fedbandits.channel.self_serving import SelfServing
from fedbandits.channel.stage import Stage
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams


class Composition:
    """An algorithm that is another one, most often one that goes through stages: a subclass is a dataclass of
    parameters (`contract.parameters`) that says in `compose` what it stands for, and has its entry from `entry`.

    Everything else follows from what it is composed of; results, files and the catalogue know it by its own name.
    """

    def compose(self) -> Algorithm:
        """What these parameters stand for."""
        raise NotImplementedError

    @cached_property
    def composed(self) -> Algorithm:
        """What it stands for."""
        return self.compose()

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        """Those of what it is composed of."""
        return self.composed.agents(problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> Server | None:
        """That of what it is composed of."""
        return self.composed.server(problem, n, rng)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The sizes that declared shapes name."""
        return sizes_of(self.composed, problem)


class SelfServed(Composition):
    """A composition for a star whose agents are each their own server: alone, acting on what they would release.

    What holds for a federation holds for each of them as for a federation of one. Nothing crosses a wire. Where
    `composed` goes through no stage nothing is hidden from an agent itself, and it acts on all that it knows.
    """

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        """n agents that talk to themselves."""
        alone = replace(problem, agents=1)
        inner = self.composed.agents(alone, n, rng)
        return SelfServing(inner, self.pooled(alone)) if isinstance(self.composed, Through) else inner

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""

    def pooled(self, problem: Problem) -> int:
        """The dimension of the sums that an agent hands itself."""
        return problem.dim


def entry(default: Algorithm, **words: Any) -> About:
    """The entry of a composition that is composed of `default` by its default parameters, with `words` in place of what
    that one says of itself: a name at least. What is said, when, and which guarantee holds follows each instance.
    """
    return depending(replace(default.about, **words), _followed)


def _followed(composition: Composition, default: About) -> About:
    found = composition.composed.about
    if default.topology == "alone":
        return replace(default, private=found.private, guarantee=found.guarantee)
    return replace(default, says=found.says, calls=found.calls, private=found.private, guarantee=found.guarantee)


def laid_open(algorithm: Algorithm) -> tuple[Algorithm, tuple[Stage, ...]]:
    """The algorithm at the core of `algorithm`, which goes through no stage, and all stages around it."""
    if isinstance(algorithm, Composition) and not isinstance(algorithm, SelfServed):
        return laid_open(algorithm.composed)
    if isinstance(algorithm, Through):
        inner, stages = laid_open(algorithm.algorithm)
        return inner, (*stages, *algorithm.stages)
    return algorithm, ()
