"""When an agent releases the mean of an arm, and what each release costs. Time is the number of pulls of the arm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg.jit import jit


@dataclass(frozen=True, slots=True, eq=False)
class Releases:
    """The releases of one arm: after pull number `counts[j]`, with the noise and the loss of the interval mechanism.

    The mean of n rewards in [0, 1] moves by at most 1/n when one of them is replaced. Laplace noise of scale
    n^(v/2 - 1) on it is therefore n^(-v/2)-differentially private, v = `rate` (Dubey (2022), thesis, lemma 3.2).
    """

    counts: IntArray
    """(J,) rising; nothing is released after the last of them."""
    rate: float

    @property
    def scales(self) -> FloatArray:
        """(J,) scales of the Laplace noise, n^(v/2 - 1)."""
        return np.asarray(self.counts ** (self.rate / 2 - 1))

    @property
    def losses(self) -> FloatArray:
        """(J,) epsilon of each release alone, n^(-v/2)."""
        return np.asarray(self.counts ** (-self.rate / 2))


ReleaseRule = Callable[[float, float, int], Releases]
"""(parameter, rate, horizon) -> the releases within `horizon` pulls of an arm: the larger the parameter in (0, 1], the
more of them. For every j the j-th release must come no later under a larger parameter; then what is spent within a
horizon does not fall as the parameter grows, which `calibrate` rests on."""


def longest_gap(parameter: float) -> int:
    """ceil(1/parameter): no two releases are further apart, and the first comes no later."""
    return math.ceil(_span(parameter))


@lru_cache(maxsize=256)
def broadcast(parameter: float, rate: float, horizon: int) -> Releases:
    """The broadcast schedule of Dubey (2022), thesis, definition 3.2, with s = `parameter` and v = `rate`.

        t_i = min{ x > t_{i-1} : sum_{j = t_{i-1}+1}^{x} j^(-v/2) >= 1 / (s x^(v/2)) },    t_0 = 0.

    The printed summand has the index of the release in place of j; only with j do gaps stay below ceil(1/s).

    >>> broadcast(0.1, 1.1, 50).counts.tolist()
    [7, 16, 26, 36, 46]
    """
    return _frozen(_broadcast_counts(_span(parameter), rate, horizon), rate)


@lru_cache(maxsize=256)
def regular(parameter: float, rate: float, horizon: int) -> Releases:
    """After every f-th pull, f = ceil(1/`parameter`): the schedule of DP-UCB-INT.

    >>> regular(0.25, 1.1, 13).counts.tolist()
    [4, 8, 12]
    """
    gap = longest_gap(parameter)
    return _frozen(np.arange(gap, horizon + 1, gap), rate)


def _span(parameter: float) -> float:
    return 1 / parameter - 1e-9  # 1/(1/m) may be a hair above m


def _frozen(counts: IntArray, rate: float) -> Releases:
    counts.flags.writeable = False  # shared by everybody who asks for the same schedule
    return Releases(counts, rate)


@jit
def _broadcast_counts(span: float, rate: float, horizon: int) -> IntArray:
    found = np.empty(horizon, np.int64)
    size = 0
    gathered = 0.0  # x^(v/2) times the sum, which is exactly 1 after one term
    for x in range(1, horizon + 1):
        gathered = 1.0 if gathered == 0.0 else gathered * (x / (x - 1)) ** (rate / 2) + 1.0
        if gathered >= span:
            found[size] = x
            size += 1
            gathered = 0.0
    return found[:size].copy()
