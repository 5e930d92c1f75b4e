"""How exact sums are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Distortion(Fact):
    """Statistics arrive changed: each entry may be off by the share `relative` of the largest entry of its field.

    Told by stages, such as `quantise`, to whoever holds sums against what honest observations can add up to.
    """

    name: ClassVar[str] = "distortion"

    relative: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
