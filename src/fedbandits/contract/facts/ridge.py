"""How much estimates are held back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Ridge(Fact):
    """The `least` ridge lambda that estimates rest on: their matrices V are at least lambda I.

    Told by algorithms of their own parameters (`contract.algorithm.posed_by`) to whoever holds their messages against
    bounds; no configuration file holds it.
    """

    name: ClassVar[str] = "ridge"

    least: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
