"""The server of a global update: gather gram matrices, minimise over everybody's data, tell everybody."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.generalized.agents import MODEL
from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.models.minimisers import Minimum
from fedbandits.models.objectives import PooledObjective, SomebodyIsAwayError
from fedbandits.models.sharing import COLLECT

Minimisation = Generator[Message, Message, Minimum]
Method = Callable[[PooledObjective, FloatArray, int, FloatArray], Minimisation]
"""How to minimise an objective over m observations, whose gram matrix (d, d) is known, from a point (d,) on: a
conversation; see `models.minimisers`."""


class GlobalUpdateServer(Server):
    """`gram` (1, d, d) and `count` of all observations handed over, and `theta` (d,), the last minimiser.

    An update needs everybody: while somebody cannot be reached it is given up, nothing that was handed over is lost,
    and the next caller brings it about again. `rounds` counts the gradient rounds, `uncertified` the updates that hit
    their cap, or were answered with noise.
    """

    keeps: ClassVar[tuple[str, ...]] = ("gram", "count", "theta", "rounds", "uncertified")
    retracts: ClassVar[bool] = True
    waits: ClassVar[bool] = True
    pursues: ClassVar[bool] = True

    def __init__(self, n: int, dim: int, ridge: float, method: Method) -> None:
        self._everybody = np.arange(n)
        self._ridge = ridge
        self._method = method
        self.gram = np.zeros((1, dim, dim))
        self.count = np.zeros(1)
        self.theta = np.zeros(dim)
        self.rounds = np.zeros((), dtype=np.int64)
        self.uncertified = np.zeros((), dtype=np.int64)

    def converse(self, callers: IntArray) -> Conversation:
        """One global update."""
        if len(callers) == 0:
            return
        new = yield Message(COLLECT.kind, self._everybody)
        if len(new.who):
            self.gram += new.arrays["gram"].sum(axis=0)
            self.count += new.arrays["count"].sum()
        if len(new.who) < len(self._everybody):
            return
        try:
            objective = PooledObjective(self._everybody, self.count[0], self._ridge)
            found = yield from self._method(objective, self.theta.copy(), int(self.count[0]), self.gram[0])
        except SomebodyIsAwayError:
            return
        self.theta[:] = found.theta
        self.rounds += found.rounds
        self.uncertified += not found.certified
        told = {"gram": self.gram, "theta": self.theta[None], "count": self.count}
        yield Message(
            MODEL.kind,
            self._everybody,
            shown_to(len(self._everybody), told),
        )
