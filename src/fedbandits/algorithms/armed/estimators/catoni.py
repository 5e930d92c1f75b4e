"""Catoni's M-estimator of a mean, for samples of finite variance."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import estimate_at, fits, take_in, weightless
from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.algorithms.armed.estimators.rows import Lists, Rows, append, holds, listed
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import stands_for
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside, jit_part

_CHUNK = 32
_NEAR = 6e4  # the product of _CHUNK factors of samples nearer than that is below 1e300
_FARTHEST = 1e150
_PRECISION = 1e-12
_STEPS = 2200  # more than halvings of any interval


class CatoniMean(Estimator):
    """The root theta of sum_i psi(alpha (X_i - theta)) = 0, psi(y) = sign(y) log(1 + |y| + y^2/2).

    alpha = sqrt(2 L / (n (v + 2 v L / (n - 2 L)))) = sqrt(2 L (n - 2 L) / v) / n, where L = log(1/delta) = 2 log t and
    Var X <= v (Catoni 2012; Bubeck, Cesa-Bianchi & Lugosi 2013). Half-width 2 sqrt(2 v log t / n). Guarantee: off by
    more with probability at most 2/t^2, if n >= 4 L.

    Fewer samples cannot give that confidence. Then L = n/4 takes its place, which is where alpha is largest,
    1 / (2 sqrt(v)): the estimate is off by more than the half-width with probability at most 2 exp(-n/4). At t = 1,
    alpha is 0 and the root is the mean of all samples.

    All `samples` are kept, 8 bytes each, and an estimate costs O(n): two or three passes of Newton's method, which
    starts at the last root (`roots`, (n, K)) and gives way to bisection wherever it leaves the interval that must hold
    the root. It ends when its next step must be below 1e-12 max(|theta|, sqrt(v)).
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "samples", "roots")

    def __init__(self, n: int, arms: int, variance: float, scale: float = 1.0) -> None:
        super().__init__(n, arms, Rate(factor=2 * variance**0.5, slope=2.0).scaled(scale))
        self._variance = variance
        self.samples = Rows(n, arms)
        self.roots = np.zeros((n, arms))

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> CatoniMean:
        """For n agents of `problem`."""
        return cls(n, problem.arms, parameters.variance(problem), parameters.scale)

    def _known(self) -> Rooted:
        return Rooted(self.roots, self.counts, self.samples.lists, self._variance)

    def _extend(self, agent: int, arm: int) -> None:
        self.samples.extend(agent, arm)

    def _reserve(self, samples: IntArray) -> bool:
        return self.samples.reserve(samples)


@weightless
class Rooted(NamedTuple):
    """`CatoniMean` as kernels take it."""

    roots: FloatArray
    counts: IntArray
    samples: Lists
    variance: float


@stands_for(take_in, Rooted)
@jit_inside
def _take_in(known: Rooted, i: Index, k: Index, reward: float, weight: float) -> bool:
    if not holds(known.samples, i, k, 1):
        return False
    append(known.samples, i, k, reward)
    known.counts[i, k] += 1
    return True


@stands_for(fits, Rooted)
@jit_inside
def _fits(known: Rooted, i: int, k: int, samples: int) -> bool:
    return holds(known.samples, i, k, samples)


@stands_for(estimate_at, Rooted)
@jit_inside
def _estimate_at(known: Rooted, i: int, k: int, now: float) -> float:
    n = known.samples.lengths[i, k]
    if n == 0:
        return 0.0
    level = min(2 * now, n / 4)
    alpha = np.sqrt(2 * level * (n - 2 * level) / known.variance) / n
    samples = listed(known.samples, i, k)
    if alpha == 0:
        known.roots[i, k] = samples.mean()
    else:
        known.roots[i, k] = _root(samples, alpha, known.roots[i, k], np.sqrt(known.variance))
    return float(known.roots[i, k])


@jit_part
def _root(samples: FloatArray, alpha: float, start: float, deviation: float) -> float:
    low, high = -np.inf, np.inf
    theta = start
    for _ in range(_STEPS):
        force, slope = _pull(samples, alpha, theta)
        if force > 0:
            low = theta
        else:
            high = theta
        tolerance = _PRECISION * max(abs(theta), deviation)
        step = force / (alpha * slope)
        if abs(step) <= tolerance:
            break
        if low < theta + step < high:
            theta += step
            # |psi''| <= 1/4: the error is now at most half of this times the square of what it was
            bend = 0.25 * alpha * len(samples) / slope
            if bend * abs(step) <= 0.25 and bend * step * step <= tolerance:
                break
        else:
            low, high = max(low, samples.min()), min(high, samples.max())
            theta = low + (high - low) / 2
            if high - low <= tolerance:
                break
    return float(theta)


@jit_part
def _pull(samples: FloatArray, alpha: float, theta: float) -> tuple[float, float]:
    """The sums of psi(y) and of psi'(y) = (1 + |y|) / (1 + |y| + y^2/2), y = alpha (X - theta).

    Logarithms cost most: one of the product of many factors takes the place of one of each, if it cannot overflow.
    """
    force, slope = 0.0, 0.0
    for begin in range(0, len(samples), _CHUNK):
        chunk = samples[begin : begin + _CHUNK]
        product, steepness, distance = 1.0, 0.0, 0.0
        for s in range(len(chunk)):
            y = alpha * (chunk[s] - theta)
            size = abs(y)
            factor = 1 + size + size * size / 2
            inverse = 1 / factor
            product *= factor if y > 0 else inverse
            steepness += (1 + size) * inverse
            distance += size
        if distance <= _NEAR:
            force += np.log(product)
            slope += steepness
            continue
        for s in range(len(chunk)):
            y = alpha * (chunk[s] - theta)
            size = min(abs(y), _FARTHEST)
            factor = 1 + size + size * size / 2
            force += np.copysign(np.log(factor), y)
            slope += (1 + size) / factor
    return force, slope
