"""What an algorithm is: hyper-parameters with two factories, written once for a population of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters (`contract.parameters`) with two factories and an entry in the catalogue.

    It may also say `sizes(problem)`, a mapping from names in its declared shapes to lengths, `assumes(problem)`, facts
    that its parameters put in place of what the problem tells, and `bounds(problem, means)`, what theory says of its
    regret (`Bounds`): `means` (K,) are those of the arms where the same K are shown at every turn, and None where
    arms change; None is also the answer of whoever has nothing to say.
    """

    @property
    def about(self) -> About:
        """Its entry in the catalogue; a class attribute."""

    def agents(self, problem: Problem, n: int, rng: Streams) -> Population:
        """n agents of `problem`; what they draw comes from `rng`: own choices, common draws, secret noise."""

    def server(self, problem: Problem, n: int, rng: Streams) -> Server | None:
        """Their server, whose draws come from `rng`; None where agents talk to nobody, or to each other."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What theory says of the group regret at the horizon; `inf` and 0 where it says nothing.

    On the very instance where its means are known. Elsewhere theorems speak of the worst instance of a problem's size:
    an upper bound then holds for every instance, a lower one for some, and a run may well stay below it.
    """

    upper: float
    lower: float


def bounds_of(algorithm: Algorithm, problem: Problem, means: FloatArray | None) -> Bounds | None:
    """What theory says of `algorithm` on `problem`, or on its instance with the given `means` (K,) where arms stay the
    same; None where it says nothing.
    """
    told = getattr(algorithm, "bounds", None)
    found: Bounds | None = None if told is None else told(problem, means)
    return found


def sizes_of(algorithm: Algorithm, problem: Problem) -> dict[str, int]:
    """The lengths that declared shapes may name: d, K and n of the problem, and an algorithm's own."""
    own = getattr(algorithm, "sizes", None)
    return {"d": problem.dim, "K": problem.arms, "n": problem.agents} | ({} if own is None else own(problem))


def posed_by(algorithm: Algorithm, problem: Problem) -> Problem:
    """`problem` as `algorithm` takes it: what the bounds of its declared fields are about."""
    own = getattr(algorithm, "assumes", None)
    return problem if own is None else problem.knowing(*own(problem))


def wire_of(algorithm: Algorithm, problem: Problem, wire: Wire | None = None) -> Wire:
    """`wire`, bound to what `algorithm` declares to say on `problem`."""
    return (wire or Wire()).speaking(algorithm.about.says, sizes_of(algorithm, problem))
