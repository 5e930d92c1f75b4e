"""How many rewards may be anything at all."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Contamination(Fact):
    """The largest `share` of rewards, told by others or observed, that may be anything at all."""

    name: ClassVar[str] = "contamination"

    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
