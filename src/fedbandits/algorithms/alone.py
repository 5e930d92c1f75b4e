"""Agents on their own."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import BoolArray
from fedbandits.contract.messages import Message
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import WireError


class LoneAgents(Stateful):
    """n agents that never call, and understand nothing a server could say."""

    def __init__(self, n: int) -> None:
        self._n = n

    def calling(self) -> BoolArray:
        """Nobody calls."""
        return np.zeros(self._n, dtype=np.bool_)

    def answer(self, request: Message) -> Message | None:
        """Nobody should ask."""
        raise WireError(f"agents on their own do not understand {request.kind!r}")
