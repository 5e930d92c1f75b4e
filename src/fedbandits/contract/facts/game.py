"""That agents are in one game, and see each other."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value

_Count = Annotated[int, Field(ge=1)]


@value
class Game(Fact):
    """What one agent does moves the state that others are in, and agents see each other.

    Arms are made of M blocks of d / M numbers, one for each agent, and all agents have as many actions. In the arms
    (K, d) that an agent is shown, row k has in block u what the k-th action of agent u means in the state that u is in:
    g_u(x_u, k). Whoever knows the rows hence knows what any joint action (k_1, ..., k_M) means, which is made up of
    block u of row k_u; and its own choice of row k is that of its own action k. Blocks of agents that it does not see
    are zero.

    Of a block the first `pays` numbers are what rewards may depend on, the others what next states may depend on; each
    of these parts has a norm of at most 1. `sees` has one row for each agent: whom it sees, itself among them; without
    it, everybody. Where the second part of a block is a picture, a number for each cell, `board` has its rows and
    columns.
    """

    name: ClassVar[str] = "game"

    pays: _Count
    sees: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] | None = None
    board: tuple[_Count, _Count] | None = None

    @model_validator(mode="after")
    def _sees_itself(self) -> Self:
        for agent, seen in enumerate(self.sees or ()):
            if agent not in seen:
                raise ValueError(f"sees: agent {agent} has to see itself; add {agent} to its row")
        return self

    def plain(self) -> dict[str, Any]:
        """See `Fact`."""
        sees = None if self.sees is None else [list(row) for row in self.sees]
        return {"pays": self.pays, "sees": sees, "board": None if self.board is None else list(self.board)}
