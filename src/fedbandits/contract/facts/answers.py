"""How noisy answers are, and how many there will be."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@value
class Answers(Fact):
    """Agents answer `rounds` questions in each update and no more, and sums of answers over all of them carry Gaussian
    noise of these standard deviations, independent from one answer to the next.

    Told by noise stages to whoever minimises what agents are asked about (`models.minimisers`).
    """

    name: ClassVar[str] = "answers"

    rounds: Annotated[int, Field(ge=1)]
    slope: _Size
    """Of an entry of a gradient."""
    bend: _Size = 0.0
    """Of an entry of a Hessian off the diagonal; those on it have sqrt(2) times as much."""
