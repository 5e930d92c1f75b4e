"""What is known of the agents themselves."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import model_validator

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.facts.rows import Rows, check_rows, rows_told
from fedbandits.contract.parameters import value


@value
class AgentFeatures(Fact):
    """The mean reward of an arm x with agent v is F(x, z_v): agents with similar `features` z have similar functions.

    `features` has one row for each agent of the problem, all of the same length.
    """

    name: ClassVar[str] = "agent_features"

    features: Rows

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        check_rows("features", self.features, of="agent")
        return self

    @classmethod
    def read(cls, told: Any) -> Self:
        """See `Fact`; a list of rows is the table itself."""
        return cls(rows_told(told)) if isinstance(told, list | tuple) else super().read(told)

    def plain(self) -> dict[str, Any]:
        """See `Fact`."""
        return {"features": [list(row) for row in self.features]}
