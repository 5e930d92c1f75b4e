"""The server of a global update: gather gram matrices, minimise over everybody's data, tell everybody."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.generalized.agents import ASK_CURVATURE, ASK_GRADIENT, COLLECT, MODEL
from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.state import Stateful
from fedbandits.models.minimisers import Minimum

Minimisation = Generator[Message, Message, Minimum]
Method = Callable[["GlobalUpdateServer", int], Minimisation]
"""How to minimise over m observations: a conversation that asks the server's `gradient` or `curvature`."""


class _SomebodyIsAwayError(Exception):
    """A global update needs everybody."""


class GlobalUpdateServer(Stateful):
    """`gram` (1, d, d) and `count` of all observations handed over, and `theta` (d,), the last minimiser.

    An update needs everybody: while somebody cannot be reached it is given up, nothing that was handed over is lost,
    and the next caller brings it about again. `rounds` counts the gradient rounds, `uncertified` the updates that hit
    their cap.
    """

    keeps: ClassVar[tuple[str, ...]] = ("gram", "count", "theta", "rounds", "uncertified")

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
            found = yield from self._method(self, int(self.count[0]))
        except _SomebodyIsAwayError:
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

    def gradient(self, theta: FloatArray) -> Generator[Message, Message, FloatArray]:
        """Gradient (d,) of the objective at theta."""
        reply = yield self._asking(ASK_GRADIENT.kind, theta)
        self._all_of(reply)
        return np.asarray((reply.arrays["gradient"].sum(axis=0) + self._ridge * theta) / self.count[0])

    def curvature(self, theta: FloatArray) -> Generator[Message, Message, tuple[float, FloatArray, FloatArray]]:
        """Value, gradient (d,) and Hessian (d, d) of the objective at theta."""
        reply = yield self._asking(ASK_CURVATURE.kind, theta)
        self._all_of(reply)
        m, total = self.count[0], {name: array.sum(axis=0) for name, array in reply.arrays.items()}
        value = float(total["loss"] + self._ridge / 2 * theta @ theta) / m
        hessian = (total["hessian"] + self._ridge * np.eye(len(theta))) / m
        return value, np.asarray((total["gradient"] + self._ridge * theta) / m), np.asarray(hessian)

    def _asking(self, kind: str, theta: FloatArray) -> Message:
        return Message(kind, self._everybody, shown_to(len(self._everybody), {"theta": theta[None]}))

    def _all_of(self, reply: Message) -> None:
        if len(reply.who) < len(self._everybody):
            raise _SomebodyIsAwayError
