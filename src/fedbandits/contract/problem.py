"""What an algorithm may know beforehand: sizes, and facts found by their type; never the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, overload

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Fact

if TYPE_CHECKING:
    from fedbandits.contract.catalogue import About

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Problem:
    """How many `agents` decide, among how many `arms` of dimension `dim`, how often (`horizon`); and what is known.

    >>> from fedbandits.contract.facts import Noise, Norms, Range
    >>> problem = Problem(agents=3, dim=5, arms=10, horizon=100).knowing(Noise(0.5))
    >>> problem.get(Noise, Noise()).sigma, problem.get(Norms, Norms()).arms, problem.get(Range)
    (0.5, 1.0, None)
    """

    agents: int
    dim: int
    arms: int
    horizon: int
    facts: tuple[Fact, ...] = ()
    """What is known beside the sizes, at most one fact of each type."""

    def __post_init__(self) -> None:
        kinds = [type(fact) for fact in self.facts]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ConfigError(f"facts: {kind.name} is told twice; leave one out")

    @overload
    def get(self, kind: type[F]) -> F | None: ...

    @overload
    def get(self, kind: type[F], otherwise: F) -> F: ...

    def get(self, kind: type[F], otherwise: F | None = None) -> F | None:
        """The fact of this type; `otherwise` where nothing is known."""
        for fact in self.facts:
            if type(fact) is kind:
                return fact
        return otherwise

    def need(self, kind: type[F], by: About) -> F:
        """The fact of this type, without which the algorithm that is told `by` cannot do."""
        found = self.get(kind)
        if found is None:
            raise ConfigError(
                f"{by.name}: needs to know the fact {kind.name!r}, which nobody has told; use an environment that "
                f"tells it, such as {by.environment!r}; a deployed agent is told by facts=[{kind.__name__}(...)]"
            )
        return found

    def knowing(self, *facts: Fact) -> Problem:
        """The same problem with these facts known, in place of others of their types."""
        told = {type(fact): fact for fact in (*self.facts, *facts)}
        return replace(self, facts=tuple(told.values()))

    def without(self, *kinds: type[Fact]) -> Problem:
        """The same problem, of which nothing of these types is known."""
        return replace(self, facts=tuple(fact for fact in self.facts if type(fact) not in kinds))
