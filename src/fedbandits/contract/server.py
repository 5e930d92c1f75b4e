"""The other end of the star."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fedbandits.contract.arrays import Array, IntArray, State
from fedbandits.contract.messages import Conversation


class Server(Protocol):
    """The other end of the star."""

    def converse(self, callers: IntArray) -> Conversation:
        """Given the floor after every step, with those who called (perhaps nobody): talk, or return."""

    def state(self) -> State:
        """Everything the server knows, as named arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Resume from a snapshot."""
