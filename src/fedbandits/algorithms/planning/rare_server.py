"""The server of agents that plan together."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.planning.rare_messages import ASK, COLLECT, POOL, SUMS
from fedbandits.contract.arrays import IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server


class RareServer(Server):
    """When somebody calls: collect everybody's matrices, and solve the stages from the last to the first, each in one
    round of sums.

    `gram` (H, d, d) is everybody's; `moments` (n, H, d) are everybody's last targets. Whoever is out of reach takes
    part with what it said last, so that matrices and targets are always over the same transitions.
    """

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moments")
    waits: ClassVar[bool] = True

    def __init__(self, n: int, length: int, dim: int) -> None:
        self.gram = np.zeros((length, dim, dim))
        self.moments = np.zeros((n, length, dim))
        self._everybody = np.arange(n)

    def converse(self, callers: IntArray) -> Conversation:
        """A round for the matrices, and one for every stage."""
        if len(callers) == 0:
            return
        everybody = self._everybody
        sent = yield Message(COLLECT.kind, everybody)
        if len(sent.who) == 0:
            return
        self.gram += sent.arrays["gram"].sum(axis=0)
        yield Message(POOL.kind, everybody, shown_to(len(everybody), {"gram": self.gram[None]}))
        for stage in reversed(range(len(self.gram))):
            about = np.full(len(everybody), stage, dtype=np.int32)
            targets = yield Message(ASK.kind, everybody, {"stage": about})
            if len(targets.who) == 0:
                return
            self.moments[targets.who, stage] = targets.arrays["moment"]
            total = shown_to(len(everybody), {"moment": self.moments[None, :, stage].sum(axis=1)})
            yield Message(SUMS.kind, everybody, {"stage": about, **total})
