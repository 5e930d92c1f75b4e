"""What there is to choose from, for everybody and for ever."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.facts.rows import Rows, check_rows, rows_told
from fedbandits.contract.parameters import value


@value
class Candidates(Fact):
    """Every arm that any agent is ever shown is one of these `points`, rows of the same length, no two of them equal.

    Agents and server can then speak of an arm by its place in the list, and what was observed of all of them fits into
    two numbers for each.
    """

    name: ClassVar[str] = "candidates"

    points: Rows

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        check_rows("points", self.points, of="candidate")
        if len(set(self.points)) < len(self.points):
            raise ValueError("points: a candidate is listed twice; leave one out")
        return self

    @classmethod
    def of(cls, points: FloatArray) -> Self:
        """The rows of `points` (K, d)."""
        return cls(tuple(map(tuple, np.asarray(points, dtype=np.float64).tolist())))

    @classmethod
    def read(cls, told: Any) -> Self:
        """See `Fact`; a list of rows is the table itself."""
        return cls(rows_told(told)) if isinstance(told, list | tuple) else super().read(told)

    def plain(self) -> dict[str, Any]:
        """See `Fact`."""
        return {"points": [list(row) for row in self.points]}

    def table(self) -> FloatArray:
        """(K, d) the points."""
        return np.array(self.points)
