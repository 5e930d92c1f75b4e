"""How smooth mean rewards are."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Length = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@value
class RKHS(Fact):
    """The mean reward of an arm x is f(x), f having a norm of at most `bound` (B) in the space of a kernel k.

        k(x, y) = exp(-sum_j (x_j - y_j)^2 / (2 l_j^2)),    or, where it is `additive`,
        k(x, y) = (1/d) sum_j exp(-(x_j - y_j)^2 / (2 l_j^2)),

    l being the `lengthscales`: one for each coordinate, or one for all of them. Either way k(x, x) = 1, so that |f| is
    at most B. Arms lie in the box [`low`, `high`]^d, or in a part of it.
    """

    name: ClassVar[str] = "rkhs"

    lengthscales: _Length | tuple[_Length, ...]
    bound: _Length = 1.0
    additive: bool = False
    low: _Finite = 0.0
    high: _Finite = 1.0

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low must be below high (got low={self.low:g}, high={self.high:g})")
        if self.lengthscales == ():
            raise ValueError("lengthscales: at least one is needed")
        return self

    def plain(self) -> dict[str, Any]:
        """See `Fact`."""
        told = super().plain()
        return told | {"lengthscales": list(self.lengthscales)} if isinstance(self.lengthscales, tuple) else told

    def scales(self, dim: int) -> tuple[float, ...]:
        """l, one for each of `dim` coordinates; raises `ValueError` where there are not as many."""
        if isinstance(self.lengthscales, float):
            return (self.lengthscales,) * dim
        if len(self.lengthscales) != dim:
            raise ValueError(f"rkhs: {len(self.lengthscales)} lengthscales are told for arms of dimension {dim}")
        return self.lengthscales
