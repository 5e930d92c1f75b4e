"""What crosses while a model is found, and afterwards; with the limits that honest answers keep to.

Phase I: the server asks for sums of gradients at w, the first time at a point that everybody draws alike, and tells the
result. Phase II: statistics of gradients at w_0, or counts and sums of rewards for each candidate, go up and their pool
comes down. Parameters are never longer than `RADIUS` times sqrt(p), so that f and its gradient have bounds F and G
(`Model.limits`), L being the longest arm and R the largest reward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, Utterance, WireField, matrix, vector
from fedbandits.models.differentiable import Model
from fedbandits.models.limits import largest_reward, reward
from fedbandits.models.limits import longest as longest_arm
from fedbandits.models.sharing import COLLECT, FRESH, POOL

RADIUS = 10.0
"""Parameters are cut down to a norm of so many times sqrt(p): ten times that of standard normal ones."""

BEGIN = Utterance("begin", "down")
"""What is the gradient where all of us begin?"""
ASK_SLOPE = Utterance("slope", "down", (vector("w", "p"),))
START = Utterance("start", "down", (vector("w", "p"),))
"""Phase I is over: this is w_0."""
TALLY, TOTALS = "tally", "totals"
"""Kinds of messages: an agent's counts and sums for each candidate, and everybody's."""


def radius(size: int) -> float:
    """How long parameters of that dimension may be."""
    return RADIUS * math.sqrt(size)


@dataclass(frozen=True)
class _Limit:
    """A limit that follows from a model."""

    model: Model

    def _bounds(self, problem: Problem, asked: Mapping[str, Array]) -> tuple[float, float]:
        norm = float(np.linalg.norm(asked["w"])) if "w" in asked else radius(self.model.parameters(problem.dim))
        return self.model.limits(norm, longest_arm(problem))


@dataclass(frozen=True)
class SlopeLimit(_Limit):
    """T (F + R) G: the norm of a sum of (f - y) grad f, over as many observations as there can be."""

    def __call__(self, problem: Problem, asked: Mapping[str, Array]) -> float:
        """See `Bound`."""
        value, steepest = self._bounds(problem, asked)
        return problem.horizon * (value + largest_reward(problem)) * steepest


@dataclass(frozen=True)
class SquareLimit(_Limit):
    """G^2: the trace of g g^T."""

    def __call__(self, problem: Problem, asked: Mapping[str, Array]) -> float:
        """See `Bound`."""
        return self._bounds(problem, asked)[1] ** 2


@dataclass(frozen=True)
class ResidualLimit(_Limit):
    """F + R: the size of y - f, and F + R + G 2 RADIUS sqrt(p) of what is left of it where gradients move."""

    moving: bool = False

    def __call__(self, problem: Problem, asked: Mapping[str, Array]) -> float:
        """See `Bound`."""
        value, steepest = self._bounds(problem, asked)
        beyond = 2 * radius(self.model.parameters(problem.dim)) * steepest if self.moving else 0.0
        return value + largest_reward(problem) + beyond


def one(problem: Problem, asked: Mapping[str, Array]) -> float:
    """What an observation adds to the length of counts."""
    return 1.0


def by_statistics(model: Model, *, moving: bool) -> tuple[Utterance, ...]:
    """Phase I by sums of gradients, phase II by sums of g g^T and (y - f) g."""
    slope = Bound(SlopeLimit(model), per_observation=False)
    gradient = vector("gradient", "p", adds="query", pooled=True, apart=True, bound=slope)
    fresh = (
        matrix("gram", "p", adds="increment", pooled=True, bound=Bound(SquareLimit(model))),
        vector("moment", "p", adds="increment", pooled=True, bound=Bound(ResidualLimit(model, moving), within="gram")),
    )
    pool = (matrix("gram", "p", adds="total"), vector("moment", "p", adds="total"))
    return (
        BEGIN,
        ASK_SLOPE,
        Utterance("slope", "up", (gradient,)),
        START,
        COLLECT,
        Utterance(FRESH.kind, "up", fresh),
        Utterance(POOL.kind, "down", pool),
    )


def by_candidates() -> tuple[Utterance, ...]:
    """Counts and sums of rewards for each of c candidates. One that was tried once has its reward in the open, and
    nobody here can read counts that carry noise: they are not declared as sums that a noise stage may change.
    """
    up = (
        WireField("count", ("c",), adds="increment", pooled=True, bound=Bound(one, low=0.0)),
        WireField("total", ("c",), adds="increment", pooled=True, raw=True, bound=Bound(reward)),
    )
    down = (WireField("count", ("c",), adds="total"), WireField("total", ("c",), adds="total", raw=True))
    return (COLLECT, Utterance(TALLY, "up", up), START, Utterance(TOTALS, "down", down))
