"""How heavy the tails of rewards are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Moment(Fact):
    """A bound on the tails of rewards X: E|X|^order <= raw and E|X - EX|^order <= central, with 1 < order <= 2.

    Without this fact rewards are sub-Gaussian, as `Noise` says.
    """

    name: ClassVar[str] = "moment"

    order: Annotated[float, Field(gt=1, le=2)]
    raw: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    central: Annotated[float, Field(ge=0, allow_inf_nan=False)]
