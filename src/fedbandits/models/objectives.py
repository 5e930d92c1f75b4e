"""A common objective over everybody's data: the server asks, the agents answer, nobody hands over an observation.

F(theta) = (1/m) [sum over all m observations of l(<x, theta>, y) + (lambda/2) ||theta||^2]. The server owns the point
theta, each agent its own part of the sum; what crosses are values, gradients and Hessians of those parts.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Closing, Message, Opening
from fedbandits.contract.wire import Bound, Utterance, WireField, matrix, vector
from fedbandits.linalg.jit import jit
from fedbandits.linalg.links import MeanFunction
from fedbandits.models import limits
from fedbandits.models.descents import Descent, DescentRule, advance, is_last
from fedbandits.models.observations import Observations, gradients

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
QUESTIONS = frozenset({ASK_GRADIENT.kind, ASK_CURVATURE.kind})
"""What agents are asked over all that they were collected from; answering changes nothing."""


class Objective(Protocol):
    """What a minimiser may ask of a function: conversations that end with its gradient or curvature at a point."""

    def gradient(self, point: FloatArray) -> Generator[Message, Message, FloatArray]:
        """Gradient (d,) at `point` (d,)."""

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """Value, gradient (d,) and Hessian (d, d) at `point` (d,)."""


class Descended(Protocol):
    """A function whose descents may be played at once (`contract.messages.Opening`)."""

    def gradient(self, point: FloatArray, descent: Descent | None = None) -> Generator[Message, Message, FloatArray]:
        """Gradient (d,) at `point` (d,), or at a later point of a `descent`, which was then moved on to it."""


class Course(NamedTuple):
    """A descent of F `over` so many observations with `ridge` lambda, for compiled functions."""

    rule: DescentRule
    points: FloatArray
    progress: FloatArray
    over: float
    ridge: float


class SomebodyIsAwayError(Exception):
    """An objective over everybody's data was asked for, and somebody did not answer."""


class PooledObjective:
    """F over `count` observations of `everybody`, with `ridge` lambda; `SomebodyIsAwayError` where not all answer."""

    def __init__(self, everybody: IntArray, count: float, ridge: float) -> None:
        self._everybody = everybody
        self._count = count
        self._ridge = ridge

    def gradient(self, point: FloatArray, descent: Descent | None = None) -> Generator[Message, Message, FloatArray]:
        """See `Objective`."""
        kind, shown = ASK_GRADIENT.kind, shown_to(len(self._everybody), {"theta": point[None]})
        if descent is None:
            reply = yield Message(kind, self._everybody, shown)
        else:
            course = Course(descent.rule, descent.points, descent.progress, self._count, self._ridge)
            reply = yield Opening(kind, self._everybody, shown, course=course)
            point = descent.points[0]
        self._all_of(reply)
        found = np.empty_like(point)
        _pool(np.ascontiguousarray(reply.arrays["gradient"]), point, self._count, self._ridge, found)
        return found

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """See `Objective`."""
        shown = shown_to(len(self._everybody), {"theta": point[None]})
        reply = yield Message(ASK_CURVATURE.kind, self._everybody, shown)
        self._all_of(reply)
        m, total = self._count, {name: array.sum(axis=0) for name, array in reply.arrays.items()}
        value = float(total["loss"] + self._ridge / 2 * point @ point) / m
        hessian = (total["hessian"] + self._ridge * np.eye(len(point))) / m
        return value, np.asarray((total["gradient"] + self._ridge * point) / m), np.asarray(hessian)

    def _all_of(self, reply: Message) -> None:
        if len(reply.who) < len(self._everybody) or not reply.arrays:
            raise SomebodyIsAwayError


def evaluated(data: Observations, link: MeanFunction, request: Message) -> Message:
    """The agents' side: what those who are asked one of `QUESTIONS` answer, over what was `given`."""
    who = request.who
    if request.kind == ASK_GRADIENT.kind:
        found = data.gradients(link, who, request.arrays["theta"], given=True)
        return Message(GRADIENT.kind, who, {"gradient": found})
    loss, gradient, hessian = data.curvatures(link, who, request.arrays["theta"], given=True)
    return Message(CURVATURE.kind, who, {"loss": loss, "gradient": gradient, "hessian": hessian})


def pursued(data: Observations, link: MeanFunction, opening: Opening) -> Closing | None:
    """The agents' side of a descent whose gradients `evaluated` would answer with; None where `opening` is no such."""
    if opening.kind != ASK_GRADIENT.kind or not isinstance(opening.course, Course):
        return None
    who = opening.who
    found, rounds = _pursue(
        opening.course, link.code, data.arms, data.rewards, who, np.zeros_like(data.given), data.given
    )
    return Closing(GRADIENT.kind, who, {"gradient": found}, rounds=rounds)


@jit
def _pursue(
    course: Course,
    code: int,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    first: IntArray,
    end: IntArray,
) -> tuple[FloatArray, int]:
    """Everybody's gradients (w, d) at the last point of a descent, which is left there, and the rounds until then."""
    d = arms.shape[1]
    theta, pooled = np.empty((len(who), d)), np.empty(d)
    rounds = 0
    while True:
        theta[:] = course.points[0]
        found = gradients(code, arms, rewards, who, first, end, theta)
        rounds += 1
        _pool(found, course.points[0], course.over, course.ridge, pooled)
        if is_last(course.rule, course.progress, pooled):
            return found, rounds
        advance(course.rule, course.points, course.progress, pooled)


@jit
def _pool(gradients: FloatArray, point: FloatArray, count: float, ridge: float, out: FloatArray) -> None:
    """The gradient of F from those of everybody's loss (n, d)."""
    for j in range(len(point)):
        out[j] = 0.0
    for i in range(len(gradients)):
        for j in range(len(point)):
            out[j] += gradients[i, j]
    for j in range(len(point)):
        out[j] = (out[j] + ridge * point[j]) / count
