"""A common objective over everybody's data: the server asks, the agents answer, nobody hands over an observation.

F(theta) = (1/m) [sum over all m observations of l(<x, theta>, y) + (lambda/2) ||theta||^2]. The server owns the point
theta, each agent its own part of the sum; what crosses are values, gradients and Hessians of those parts.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Bound, Utterance, WireField, matrix, vector
from fedbandits.linalg.links import MeanFunction
from fedbandits.models import limits
from fedbandits.models.observations import Observations

Curvature = tuple[float, FloatArray, FloatArray]
"""Value, gradient (d,) and Hessian (d, d)."""

ASK_GRADIENT = Utterance("gradient", "down", (vector("theta"),))
GRADIENT = Utterance(
    "gradient", "up", (vector("gradient", adds="query", pooled=True, apart=True, bound=Bound(limits.slope)),)
)
"""Gradient of the agent's loss at theta, over all it had observed when it was last collected from."""
ASK_CURVATURE = Utterance("curvature", "down", (vector("theta"),))
CURVATURE = Utterance(
    "curvature",
    "up",
    (
        WireField("loss", adds="query", pooled=True, apart=True, bound=Bound(limits.loss)),
        vector("gradient", adds="query", pooled=True, apart=True, bound=Bound(limits.slope)),
        matrix("hessian", adds="query", pooled=True, apart=True, bound=Bound(limits.bend)),
    ),
)
"""Loss, gradient and Hessian of the agent's loss at theta."""


class Objective(Protocol):
    """What a minimiser may ask of a function: conversations that end with its gradient or curvature at a point."""

    def gradient(self, point: FloatArray) -> Generator[Message, Message, FloatArray]:
        """Gradient (d,) at `point` (d,)."""

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """Value, gradient (d,) and Hessian (d, d) at `point` (d,)."""


class SomebodyIsAwayError(Exception):
    """An objective over everybody's data was asked for, and somebody did not answer."""


class PooledObjective:
    """F over `count` observations of `everybody`, with `ridge` lambda; `SomebodyIsAwayError` where not all answer."""

    def __init__(self, everybody: IntArray, count: float, ridge: float) -> None:
        self._everybody = everybody
        self._count = count
        self._ridge = ridge

    def gradient(self, point: FloatArray) -> Generator[Message, Message, FloatArray]:
        """See `Objective`."""
        reply = yield self._asking(ASK_GRADIENT.kind, point)
        self._all_of(reply)
        return np.asarray((reply.arrays["gradient"].sum(axis=0) + self._ridge * point) / self._count)

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """See `Objective`."""
        reply = yield self._asking(ASK_CURVATURE.kind, point)
        self._all_of(reply)
        m, total = self._count, {name: array.sum(axis=0) for name, array in reply.arrays.items()}
        value = float(total["loss"] + self._ridge / 2 * point @ point) / m
        hessian = (total["hessian"] + self._ridge * np.eye(len(point))) / m
        return value, np.asarray((total["gradient"] + self._ridge * point) / m), np.asarray(hessian)

    def _asking(self, kind: str, point: FloatArray) -> Message:
        return Message(kind, self._everybody, shown_to(len(self._everybody), {"theta": point[None]}))

    def _all_of(self, reply: Message) -> None:
        if len(reply.who) < len(self._everybody) or not reply.arrays:
            raise SomebodyIsAwayError


def evaluated(data: Observations, link: MeanFunction, request: Message) -> Message | None:
    """The agents' side: what those who are asked for a gradient or a curvature answer, over what was `given`; None if
    `request` asks for neither.
    """
    who = request.who
    if request.kind == ASK_GRADIENT.kind:
        found = data.gradients(link, who, request.arrays["theta"], given=True)
        return Message(GRADIENT.kind, who, {"gradient": found})
    if request.kind == ASK_CURVATURE.kind:
        loss, gradient, hessian = data.curvatures(link, who, request.arrays["theta"], given=True)
        return Message(CURVATURE.kind, who, {"loss": loss, "gradient": gradient, "hessian": hessian})
    return None
