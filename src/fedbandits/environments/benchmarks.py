"""Functions that optimisers are tried on, as arms with noisy rewards: Camelback, Styblinski-Tang and Michalewicz.

On [-1/2, 1/2]^d and scaled as in the public code of Mutny & Krause (NeurIPS 2018), whose benchmarks the thesis takes
(Dubey 2022, section 7.6); it states neither dimensions, which are read off the names, nor scalings, kernels or noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import RKHS, Fact, Noise, Range
from fedbandits.contract.parameters import parameters
from fedbandits.environments.arms import ArmSource
from fedbandits.environments.laws import Law, Uniform
from fedbandits.environments.smooth import Smooth
from fedbandits.linalg.kernels import aligned

_HALF = 0.5
_GRID = 20_001
"""Points in one coordinate at which functions that are sums over coordinates are searched for extremes."""
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class Benchmark(Smooth):
    """Rewards f(x) plus uniform noise of standard deviation `noise`: they have a range, and a budget of privacy holds.

    Every decision shows new arms, uniform in the box; where `optimum`, one of them, at a random place, is the best
    there is, so that regret is against the maximum over the whole box, as publications have it.

    No function here is known to lie in the space of a kernel with a norm that anybody could state. `lengthscale` and
    `bound` are what agents are told nevertheless (`RKHS`): guesses, from ridge regressions on 3,000 uniform points.
    """

    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    lengthscale: _Positive = 0.2
    bound: _Positive = 2.0
    optimum: bool = True

    additive: ClassVar[bool] = True
    """Whether f is a sum of functions of one coordinate each."""

    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        return BoxArms(self, self.best()), len(self.best())

    def _law(self) -> Law:
        return Uniform(self.noise)

    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        low, high = self.extremes()
        reach = Uniform(self.noise).reach
        return (
            Noise(self.noise),
            Range(low - reach, high + reach),
            RKHS(self.lengthscale, bound=self.bound, additive=self.additive, low=-_HALF, high=_HALF),
        )

    @abstractmethod
    def values(self, points: FloatArray) -> FloatArray:
        """(..., d) -> (...) f."""

    @abstractmethod
    def best(self) -> FloatArray:
        """(d,) where f is largest."""

    @abstractmethod
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest value of f."""


@parameters
class Camelback(Benchmark):
    """f(x) = -c(4 x_1, 2 x_2) / 5, c(a, b) = (4 - 2.1 a^2 + a^4/3) a^2 + a b + (4 b^2 - 4) b^2: the six-hump camel.

    Two maxima of 0.206, four more that are only local, and -1.147 in two corners.
    """

    additive: ClassVar[bool] = False
    dim: ClassVar[int] = 2

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="camelback",
        family="gp",
        summary="the six-hump camel function of two coordinates, with bounded noise",
        source="Mutny & Krause (NeurIPS 2018); Dubey (2022), thesis, section 7.6",
    )

    def values(self, points: FloatArray) -> FloatArray:
        """See `Benchmark`."""
        a, b = 4 * points[..., 0], 2 * points[..., 1]
        return np.asarray(-((4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2) / 5)

    def best(self) -> FloatArray:
        """See `Benchmark`; the other one is its opposite."""
        return np.array([0.0898420131 / 4, -0.7126564030 / 2])

    def extremes(self) -> tuple[float, float]:
        """See `Benchmark`."""
        return float(self.values(np.array([_HALF, _HALF]))), float(self.values(self.best()))


@parameters
class Separable(Benchmark):
    """f(x) = sum_j g_j(x_j)."""

    dim: Annotated[int, Field(ge=1)] = 10

    def values(self, points: FloatArray) -> FloatArray:
        """See `Benchmark`."""
        return np.asarray(self.parts(points).sum(axis=-1))

    def best(self) -> FloatArray:
        """See `Benchmark`; to about 1e-9, by a grid and the parabola through its best points."""
        return _peaks(self)

    def extremes(self) -> tuple[float, float]:
        """See `Benchmark`; no value is below the first: by as much as f can fall between points of the grid."""
        return _lowest(self) - self.steepest() / (2 * (_GRID - 1)), float(self.values(self.best())) + 1e-9

    @abstractmethod
    def parts(self, points: FloatArray) -> FloatArray:
        """(..., d) -> (..., d) g_j of each coordinate."""

    @abstractmethod
    def steepest(self) -> float:
        """A bound on the sum over j of the largest |g_j'|."""


@parameters
class StyblinskiTang(Separable):
    """f(x) = -(1/2 + 1/(400 d) sum_j (u_j^4 - 16 u_j^2 + 5 u_j)), u = 8 x: between -0.55 and -0.304."""

    dim: Annotated[int, Field(ge=1)] = 20
    bound: _Positive = 1.0

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="styblinski-tang",
        family="gp",
        summary="a sum of quartic functions of single coordinates, with bounded noise",
        source="Mutny & Krause (NeurIPS 2018); Dubey (2022), thesis, section 7.6",
    )

    def parts(self, points: FloatArray) -> FloatArray:
        """See `Separable`."""
        u = 8 * points
        return np.asarray(-(_HALF + (u**4 - 16 * u**2 + 5 * u) / 400) / self.dim)

    def steepest(self) -> float:
        """See `Separable`: |4 u^3 - 32 u + 5| is largest at u = 4."""
        return 8 * (4 * 64 - 32 * 4 + 5) / 400


@parameters
class Michalewicz(Separable):
    """f(x) = sum_j sin(u_j) sin(j u_j / pi)^(2d), u = pi (x / 0.75 + 1/2): narrow ridges, narrower for later j.

    A variant of the well-known function, which has u_j^2 in the second sine and an exponent of 20. With d = 10 the
    ridges of the last coordinates are some 0.02 wide, which the default `lengthscale` smooths over: of the variance of
    f on uniform points features of an error of 1/100 explain 93 %.
    """

    bound: _Positive = 10.0
    lengthscale: _Positive = 0.05

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="michalewicz",
        family="gp",
        summary="a sum of functions of single coordinates with narrow ridges, with bounded noise",
        source="Mutny & Krause (NeurIPS 2018); Dubey (2022), thesis, section 7.6",
    )

    def parts(self, points: FloatArray) -> FloatArray:
        """See `Separable`."""
        u = math.pi * (points / 0.75 + _HALF)
        steps = np.arange(1, self.dim + 1)
        return np.asarray(np.sin(u) * np.sin(steps * u / math.pi) ** (2 * self.dim))

    def steepest(self) -> float:
        """See `Separable`: |g_j'| is at most 1 + 2 d j / pi in u."""
        return math.pi / 0.75 * sum(1 + 2 * self.dim * j / math.pi for j in range(1, self.dim + 1))


class BoxArms:
    """K new arms for every decision, uniform in the box; one of them is `best` (d,) where that is asked for."""

    def __init__(self, function: Benchmark, best: FloatArray) -> None:
        self._function = function
        self._best = best
        self.size = function.arms * len(best)

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        lanes = aligned((*who.shape, len(self._best), self._function.arms))
        rng.random(out=lanes)
        lanes -= _HALF
        if self._function.optimum:
            place = rng.integers(self._function.arms, size=who.shape)
            np.put_along_axis(lanes, place[..., None, None], self._best[:, None], axis=-1)
        return lanes, self._function.values(lanes.swapaxes(-1, -2))


def _tabled(function: Separable) -> tuple[FloatArray, FloatArray]:
    """The grid (m,), and g_j at its points (m, d)."""
    grid = np.linspace(-_HALF, _HALF, _GRID)
    return grid, function.parts(np.repeat(grid[:, None], function.dim, axis=1))


@lru_cache(maxsize=32)
def _lowest(function: Separable) -> float:
    """The sum of the smallest values of each g_j on the grid."""
    return float(_tabled(function)[1].min(axis=0).sum())


@lru_cache(maxsize=32)
def _peaks(function: Separable) -> FloatArray:
    """(d,) where each g_j is largest."""
    grid, parts = _tabled(function)
    at = np.clip(parts.argmax(axis=0), 1, _GRID - 2)
    columns = np.arange(function.dim)
    before, here, after = (parts[at + step, columns] for step in (-1, 0, 1))
    bent = before - 2 * here + after
    shift = np.where(bent < 0, (before - after) / (2 * np.where(bent < 0, bent, 1.0)), 0.0)
    return np.asarray(np.clip(grid[at] + np.clip(shift, -1, 1) * (grid[1] - grid[0]), -_HALF, _HALF))
