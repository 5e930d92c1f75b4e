"""What is known of the agents themselves."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Finite = Annotated[float, Field(allow_inf_nan=False)]


@value
class AgentFeatures(Fact):
    """The mean reward of an arm x with agent v is F(x, z_v): agents with similar `features` z have similar functions.

    `features` has one row for each agent of the problem, all of the same length.
    """

    name: ClassVar[str] = "agent_features"

    features: tuple[tuple[_Finite, ...], ...]

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        lengths = {len(row) for row in self.features}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError(
                f"features: every agent needs as many numbers as the others, got rows of {sorted(lengths)}"
            )
        return self

    @classmethod
    def read(cls, told: Any) -> Self:
        """See `Fact`; a list of rows is the table itself."""
        if not isinstance(told, list | tuple):
            return super().read(told)
        table = told[0] if len(told) == 1 and told[0] and isinstance(told[0][0], list | tuple) else told
        return cls(tuple(tuple(row) for row in table))

    def plain(self) -> dict[str, Any]:
        """See `Fact`."""
        return {"features": [list(row) for row in self.features]}
