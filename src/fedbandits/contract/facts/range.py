"""Where rewards lie."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Finite = Annotated[float, Field(allow_inf_nan=False)]


@value
class Range(Fact):
    """All rewards lie between `low` and `high`; without this fact no such bound is known."""

    name: ClassVar[str] = "range"

    low: _Finite
    high: _Finite

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low must be below high (got low={self.low:g}, high={self.high:g})")
        return self

    @property
    def largest(self) -> float:
        """The largest size of a reward."""
        return max(abs(self.low), abs(self.high))
