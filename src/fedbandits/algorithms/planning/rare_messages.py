"""What agents say that plan together from sums alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.algorithms.planning.messages import COLLECT, length_of
from fedbandits.contract.arrays import Array, IntArray
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, Utterance, WireError, WireField
from fedbandits.models.limits import arm_square, largest_reward, longest

__all__ = ["ASK", "COLLECT", "GRAMS", "POOL", "SUMS", "TARGETS", "stage_of"]


def target(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L H R: the norm of phi (r + V(x')), values being cut off at what all later stages can pay."""
    return longest(problem) * length_of(problem) * largest_reward(problem)


GRAMS = Utterance(
    "grams",
    "up",
    (WireField("gram", ("H", "d", "d"), adds="increment", pooled=True, apart=True, bound=Bound(arm_square)),),
)
"""sum phi phi^T of every stage, over the episodes that an agent has finished since its last upload."""
POOL = Utterance("pool", "down", (WireField("gram", ("H", "d", "d"), adds="total"),))
"""The same over everybody and everything."""
_STAGE = WireField("stage", dtype="i4")
ASK = Utterance("ask", "down", (_STAGE,))
"""What are the targets of a stage, now that the next one is solved?"""
TARGETS = Utterance("targets", "up", (WireField("moment", ("d",), adds="query", apart=True, bound=Bound(target)),))
"""sum phi (r + V(x')) over all transitions of an agent in the stage that was asked for."""
SUMS = Utterance("sums", "down", (_STAGE, WireField("moment", ("d",), adds="total")))
"""The same over everybody: what solves the stage."""


def stage_of(request: Message, length: int) -> int:
    """The stage that `request` is about, for all whom it is sent to."""
    stages: IntArray = np.unique(request.arrays["stage"])
    if len(stages) != 1 or not 0 <= stages[0] < length:
        raise WireError(f"message {request.kind!r} is about stages {stages.tolist()}; there are 0..{length - 1}")
    return int(stages[0])
