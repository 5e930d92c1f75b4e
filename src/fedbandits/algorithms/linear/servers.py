"""The server of a star that keeps one pool of statistics."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.models.sharing import COLLECT, POOL, told
from fedbandits.models.statistics import Statistics

Audience = Literal["everybody", "callers"]


class PoolServer(Server):
    """When somebody calls: collect what is new from `collects`, add it to the pool, tell the pool to `tells`.

    Not more than `portion` agents are asked at once: what very many hand over need not be in memory all together.
    """

    keeps: ClassVar[tuple[str, ...]] = ("pool",)
    retracts: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    def __init__(
        self,
        parameters: LinearParameters,
        n: int,
        dim: int,
        *,
        collects: Audience,
        tells: Audience,
        portion: int | None = None,
    ) -> None:
        self._parameters = parameters
        self._everybody = np.arange(n)
        self._collects = collects
        self._tells = tells
        self.pool = Statistics(1, dim)
        self._portion = portion or n

    def converse(self, callers: IntArray) -> Conversation:
        """One round of statistics: two requests, or several smaller ones for the first."""
        if len(callers) == 0:
            return
        asked, answered = self._audience(self._collects, callers), False
        for some in np.split(asked, range(self._portion, len(asked), self._portion)):
            fresh = yield Message(COLLECT.kind, some)
            if len(fresh.who):
                answered = True
                self.pool.merge_all(0, *told(fresh))
        if not answered:
            return
        listeners = self._audience(self._tells, callers)
        pool = self.pool.rows(np.zeros(1, dtype=np.int64), counted=self._parameters.tells_counts)
        yield Message(POOL.kind, listeners, shown_to(len(listeners), pool))

    def _audience(self, audience: Audience, callers: IntArray) -> IntArray:
        return self._everybody if audience == "everybody" else callers
