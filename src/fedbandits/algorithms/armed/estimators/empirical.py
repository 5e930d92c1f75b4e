"""The empirical mean: sums and counts."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import (
    estimate_at,
    fits,
    lightest,
    put_sum,
    sum_at,
    take_in,
    weightless,
)
from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import stands_for
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside


class EmpiricalMean(Estimator):
    """sum / n with half-width sqrt(c0 log t / n), c0 = `Estimation.exploration`; `sums` (n, K).

    Guarantee: off by more than the half-width with probability at most 2 t^-4 for rewards in [0, 1] and c0 = 2 (Auer,
    Cesa-Bianchi & Fischer 2002), and for sigma-sub-Gaussian rewards and c0 = 8 sigma^2. None for heavier tails: there
    the chance falls only as a power of n. One outlier moves it without bound.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "sums")

    def __init__(self, n: int, arms: int, rate: Rate) -> None:
        super().__init__(n, arms, rate)
        self.sums = np.zeros((n, arms))

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> EmpiricalMean:
        """For n agents of `problem`."""
        return cls(n, problem.arms, Rate(factor=1.0, slope=parameters.exploration).scaled(parameters.scale))

    def merge(self, who: IntArray, sums: FloatArray, counts: IntArray) -> None:
        """Add what was summed up elsewhere: (w, K) sums of (w, K) samples, for each agent in `who`."""
        self.sums[who] += sums
        self.counts[who] += counts

    def _known(self) -> Averaged:
        return Averaged(self.sums, self.counts)


@weightless
class Averaged(NamedTuple):
    """`EmpiricalMean` for compiled loops."""

    sums: FloatArray
    counts: IntArray


@stands_for(take_in, Averaged)
@jit_inside
def _take_in(known: Averaged, i: Index, k: Index, reward: float, weight: float) -> bool:
    known.sums[i, k] += reward
    known.counts[i, k] += 1
    return True


@stands_for(lightest, Averaged)
@jit_inside
def _lightest(known: Averaged, i: int, k: int) -> float:
    return np.inf


@stands_for(sum_at, Averaged)
@jit_inside
def _sum_at(known: Averaged, i: int, k: int) -> float:
    return float(known.sums[i, k])


@stands_for(put_sum, Averaged)
@jit_inside
def _put_sum(known: Averaged, i: int, k: int, total: float, samples: int) -> None:
    known.sums[i, k] = total
    known.counts[i, k] += samples


@stands_for(fits, Averaged)
@jit_inside
def _fits(known: Averaged, i: int, k: int, samples: int) -> bool:
    return True


@stands_for(estimate_at, Averaged)
@jit_inside
def _estimate_at(known: Averaged, i: int, k: int, now: float) -> float:
    return average_at(known.sums, known.counts, i, k)


@jit_inside
def average_at(sums: FloatArray, counts: IntArray, i: int, k: int) -> float:
    """A sum over a count; 0 where the count is."""
    return float(sums[i, k] / counts[i, k]) if counts[i, k] > 0 else 0.0
