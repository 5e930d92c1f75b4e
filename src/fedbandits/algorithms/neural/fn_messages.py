"""What crosses in FN-UCB: statistics of tangent features, networks, mixing weights and inverses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Embedding, Ridge
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Adds, Bound, Free, Utterance, WireField, matrix, vector
from fedbandits.models.limits import arm_square, largest_reward, longest
from fedbandits.models.sharing import counting

FAR = 10.0
"""Networks are cut down to a norm of so many times sqrt(p): ten times that of one whose weights are standard normal."""

COLLECT = Utterance("collect", "down")


class Pooling(NamedTuple):
    """What becomes of matrices that are handed over, the course of a `COLLECT` (`contract.messages.Opening`)."""

    before: FloatArray
    """(p, p) the sum of all that were handed over before."""
    gram: FloatArray
    """(p, p) where to write it with what is new."""
    inverses: FloatArray
    """Where to write the mean of inverses (p, p), or all of them (N, p, p)."""


def response(problem: Problem, asked: Mapping[str, Array]) -> float:
    """R L: the norm of y phi."""
    return largest_reward(problem) * longest(problem)


def farthest(problem: Problem, asked: Mapping[str, Array]) -> float:
    """The largest norm of a network's parameters."""
    known = problem.get(Embedding)
    return math.inf if known is None else FAR * math.sqrt(known.dim)


def inverse_trace(problem: Problem, asked: Mapping[str, Array]) -> float:
    """p / lambda: the largest trace of V^-1."""
    known = problem.get(Embedding)
    return math.inf if known is None else known.dim / problem.get(Ridge, Ridge()).least


def one(problem: Problem, asked: Mapping[str, Array]) -> float:
    """The largest mixing weight."""
    return 1.0


def _spread(name: str, diagonal: bool, bound: Bound | None, adds: Adds | None, pooled: bool) -> WireField:
    make = vector if diagonal else matrix
    return make(name, "p", adds=adds, pooled=pooled, bound=bound)


def says(*, diagonal: bool, less: bool, passed_on: bool, biased: bool) -> tuple[Utterance, ...]:
    """The declarations: matrices or their `diagonal`, one mean inverse (`less`) or everybody's, and whether one network
    is `passed_on` from agent to agent in place of an average.

    The gradient in the last bias is 1: where networks are `biased`, the last number of sum y phi is the sum of rewards,
    and at D = 0 each of them is told as it was observed. That is declared, since it cannot be helped.
    """
    whole = Bound(inverse_trace, per_observation=False)
    network = WireField("network", ("p",), pooled=True, optional=True, bound=Bound(farthest, per_observation=False))
    up = (
        _spread("gram", diagonal, Bound(arm_square), "increment", pooled=True),
        WireField("moment", ("p",), adds="increment", pooled=True, bound=Bound(response), raw=biased),
        counting(adds="increment", pooled=True, optional=False),
        _spread("inverse", diagonal, whole, None, pooled=less),
        WireField("alpha", optional=True, bound=Bound(one, per_observation=False, low=0.0)),
    )
    shape: tuple[str | Free, ...] = (Free("agents"), "p") if diagonal else (Free("agents"), "p", "p")
    inverses = _spread("inverse", diagonal, None, None, pooled=False) if less else WireField("inverses", shape)
    down = (
        _spread("gram", diagonal, None, "total", pooled=False),
        WireField("moment", ("p",), adds="total", raw=biased),
        counting(adds="total", optional=False),
        inverses,
        WireField("network", ("p",), optional=True),
        WireField("alpha", optional=True),
    )
    handed = Utterance("handed", "up", up if passed_on else (*up, network))
    model = Utterance("model", "down", down)
    if not passed_on:
        return (COLLECT, handed, model)
    train = Utterance("train", "down", (vector("network", "p"),))
    return (COLLECT, handed, train, Utterance("trained", "up", (vector("network", "p", bound=network.bound),)), model)
