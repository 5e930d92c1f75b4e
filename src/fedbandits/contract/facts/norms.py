"""How large parameters and arms are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@value
class Norms(Fact):
    """Upper bounds on the Euclidean norms of the unknown `parameter` (S) and of `arms` (L)."""

    name: ClassVar[str] = "norms"

    parameter: _Size = 1.0
    arms: _Size = 1.0
