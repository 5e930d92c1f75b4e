"""How noisy rewards are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Noise(Fact):
    """Rewards differ from their means by sub-Gaussian noise with the constant `sigma`."""

    name: ClassVar[str] = "noise"

    sigma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
