"""Several models for each agent, in rows of one part: those of agent i are the rows i m to (i + 1) m - 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.state import Stateful

Part = TypeVar("Part", bound=Stateful)


class Interleaved(Stateful, Generic[Part]):
    """`part`, all of whose arrays have `each` rows for every agent."""

    def __init__(self, part: Part, each: int) -> None:
        self.part = part
        self._each = each

    def _arrays(self, prefix: str = "") -> State:
        return self.part._arrays(prefix)

    def _share(self, agent: int, prefix: str) -> State:
        rows = slice(agent * self._each, (agent + 1) * self._each)
        return {name: array[rows] for name, array in self._arrays(prefix).items()}

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        self.part._take(state, prefix)
