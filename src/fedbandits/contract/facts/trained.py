"""What agents of a network that everybody trains are asked for."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Trained(Fact):
    """Agents hand nothing over; in each update they are asked some times for the slope of a network's loss over all
    they have observed, a vector of `parameters` numbers, and once for the statistics of `features` numbers of it. What
    one observation adds to a slope has a norm of at most `cut`, and so have its features; targets are at most 1.

    Told by algorithms of themselves to stages that divide a budget between those questions, as `Questions`.
    """

    name: ClassVar[str] = "trained"

    cut: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    parameters: Annotated[int, Field(ge=1)]
    features: Annotated[int, Field(ge=1)]
