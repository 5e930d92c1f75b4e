"""What an algorithm is: hyper-parameters with two factories, written once for a population of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.population import Agents, Peers
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters with two factories, and an entry in the catalogue."""

    about: ClassVar[About]

    def agents(self, problem: Problem, n: int, rng: Streams) -> Agents | Peers:
        """n agents of `problem`, whose own random choices come from `rng` (one stream for each)."""

    def server(self, problem: Problem, n: int) -> Server | None:
        """Their server; None where agents talk to nobody, or to each other."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What theory says of the group regret at the horizon on one instance; `inf` and 0 where it says nothing."""

    upper: float
    lower: float


@runtime_checkable
class Bounded(Protocol):
    """An algorithm of whose regret theory says something on K arms with known means."""

    def bounds(self, problem: Problem, means: FloatArray) -> Bounds:
        """The theorems' expressions on the instance with the given `means` (K,)."""


def sizes_of(algorithm: Algorithm, problem: Problem) -> dict[str, int]:
    """The lengths that declared shapes may name: d, K and n of the problem, and an algorithm's own."""
    common = {"d": problem.dim, "K": problem.arms, "n": problem.agents}
    own: Callable[[Problem], dict[str, int]] | None = getattr(algorithm, "sizes", None)
    return common | (own(problem) if own is not None else {})
