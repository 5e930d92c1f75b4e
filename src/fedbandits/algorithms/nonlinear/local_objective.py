"""Objectives that ask nobody: whoever minimises them has the data, or all of them that matters."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.messages import Message
from fedbandits.models.differentiable import Model
from fedbandits.models.objectives import Curvature

T = TypeVar("T")


class LocalObjective:
    """An objective with the given gradient (p,) -> (p,)."""

    def __init__(self, slope: Callable[[FloatArray], FloatArray]) -> None:
        self._slope = slope

    def gradient(self, point: FloatArray) -> Generator[Message, Message, FloatArray]:
        """See `Objective`."""
        yield from ()
        return self._slope(point)

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """Nobody asks for it."""
        raise NotImplementedError


def over_tallies(model: Model, points: FloatArray, count: FloatArray, total: FloatArray) -> LocalObjective:
    """(1/m) sum_j [count_j f_j^2 - 2 total_j f_j], f_j = f(x_j; w): the mean squared error over m observations of
    candidates `points` (K, d), but for a constant. Counts and sums of rewards (K,) are all that matters.
    """
    seen = np.flatnonzero(count)
    points, count, total = points[seen], count[seen], total[seen]

    def slope(w: FloatArray) -> FloatArray:
        gaps = count * model.values(w, points) - total
        return np.asarray(2 * gaps @ model.gradients(w, points) / count.sum())

    return LocalObjective(slope)


def alone(conversation: Generator[Message, Message, T]) -> T:
    """What a conversation in which nobody is asked anything comes to."""
    try:
        next(conversation)
    except StopIteration as end:
        found: T = end.value
        return found
    raise RuntimeError("somebody is asked in a conversation that needs nobody")
