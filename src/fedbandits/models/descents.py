"""Accelerated gradient descent, step by step: where it is, what comes next, and when it is over."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg.jit import jit, jit_part

Momentum = Literal["none", "fista", "strong"]


class DescentRule(NamedTuple):
    """Steps of 1/`smooth` with a `constant` momentum, or FISTA's, until the gradient is at most `tolerance`, at most
    `cap` rounds. Compiled functions take it as it is.
    """

    smooth: float
    fista: bool
    constant: float
    tolerance: float
    cap: int


class Descent:
    """A descent under way: `points` (2, d) are the point at which the gradient is asked for next and the one that the
    last plain step led to, `progress` (2,) is FISTA's v and the number of rounds so far.
    """

    def __init__(self, start: FloatArray, rule: DescentRule) -> None:
        self.rule = rule
        self.points = np.array([start, start])
        self.progress = np.array([1.0, 0.0])
        self.certified = False

    @property
    def theta(self) -> FloatArray:
        """(d,) where the gradient is asked for next, or where it all ended; a copy."""
        return np.array(self.points[0])

    @property
    def rounds(self) -> int:
        """How many gradients were taken."""
        return int(self.progress[1])

    def take(self, gradient: FloatArray) -> bool:
        """Take the gradient at `theta`, and a step unless that is the minimum; whether it is over."""
        over = is_last(self.rule, self.progress, gradient)
        self.certified = advance(self.rule, self.points, self.progress, gradient)
        return over


@jit_part
def _is_minimum(rule: DescentRule, gradient: FloatArray) -> bool:
    square = 0.0
    for j in range(len(gradient)):
        square += gradient[j] * gradient[j]
    return bool(math.sqrt(square) <= rule.tolerance)


@jit
def is_last(rule: DescentRule, progress: FloatArray, gradient: FloatArray) -> bool:
    """Whether the descent ends with this gradient: certified, or as the last that there may be."""
    return bool(progress[1] + 1.0 >= rule.cap) or _is_minimum(rule, gradient)


@jit
def advance(rule: DescentRule, points: FloatArray, progress: FloatArray, gradient: FloatArray) -> bool:
    """Count a round, and take a step; none, and True, where the gradient certifies the minimum."""
    progress[1] += 1.0
    if _is_minimum(rule, gradient):
        return True
    weight = rule.constant
    if rule.fista:
        following = (1.0 + math.sqrt(1.0 + 4.0 * progress[0] * progress[0])) / 2.0
        weight, progress[0] = (progress[0] - 1.0) / following, following
    for j in range(len(gradient)):
        stepped = points[0, j] - gradient[j] / rule.smooth
        points[0, j] = stepped + weight * (stepped - points[1, j])
        points[1, j] = stepped
    return False
