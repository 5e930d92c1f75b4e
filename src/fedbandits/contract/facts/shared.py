"""What agents have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Shared(Fact):
    """All agents have the first `coordinates` of the parameter in common; without this fact, all of them."""

    name: ClassVar[str] = "shared"

    coordinates: Annotated[int, Field(ge=1)]
