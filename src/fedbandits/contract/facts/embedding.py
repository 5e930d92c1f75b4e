"""In which space models live."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Embedding(Fact):
    """Models see features of arms: of dimension `dim`, and with a Euclidean norm of at most `size` whatever the arm.

    Told by algorithms of their own features (`contract.algorithm.posed_by`) to whoever holds their messages against
    bounds, or adds noise to them; no configuration file holds it.
    """

    name: ClassVar[str] = "embedding"

    dim: Annotated[int, Field(ge=1)]
    size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
