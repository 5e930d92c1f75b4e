"""Kernels: how much what is observed at one point tells of another.

A kernel is a small value. It gives matrices and diagonals, knows the waves it is made of where it is stationary
(`waves`, `profile`, `frequencies`), which is what features are built from, and has a `code` by which compiled loops
know it: all of them are filled in by `cross`, where a new kernel adds a branch. So one value serves exact processes,
Nystrom dictionaries, quadrature where it exists, and random features.

scikit-learn has the same kernels, and ours are tested against its. It cannot be called from compiled loops over agents,
and its distances come from one product of all points, whose last digits depend on how many there are: an agent would
not compute the same bits alone as in company. Nor does it know of waves.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.polynomial.hermite import hermgauss

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS
from fedbandits.linalg.exponential import exponential
from fedbandits.linalg.jit import jit
from fedbandits.linalg.simd import muladd

Waves = tuple[FloatArray, FloatArray]
"""(N, d) frequencies, or (N,) in one coordinate, and (N,) weights, which sum to 1."""

_LINEAR, _PRODUCT, _ADDITIVE = 0, 1, 2
_MATERN = {0.5: 3, 1.5: 4, 2.5: 5}


class Kernel(Protocol):
    """k(x, y) for points of dimension `dim`: symmetric, and positive semidefinite on any set of points."""

    @property
    def dim(self) -> int:
        """d."""

    @property
    def code(self) -> int:
        """What compiled loops know it by."""

    @property
    def rates(self) -> FloatArray:
        """(d,) what differences in each coordinate are multiplied by."""

    @abstractmethod
    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """(m, d), (q, d) -> (m, q)."""

    @abstractmethod
    def diagonal(self, points: FloatArray) -> FloatArray:
        """(m, d) -> (m,) k(x, x)."""


class _Compiled:
    """Matrices by `cross`."""

    def matrix(self: Kernel, left: FloatArray, right: FloatArray) -> FloatArray:
        """See `Kernel`."""
        found = np.empty((len(left), len(right)))
        cross(self.code, self.rates, np.ascontiguousarray(left), len(left), np.ascontiguousarray(right.T), found)
        return found

    def diagonal(self: Kernel, points: FloatArray) -> FloatArray:
        """See `Kernel`."""
        found = np.empty(len(points))
        own(self.code, np.ascontiguousarray(points.T), found)
        return found


@dataclass(frozen=True)
class Linear(_Compiled):
    """k(x, y) = <x, y>: functions are <theta, x>, and what is learned of them is ridge regression.

    >>> import numpy as np
    >>> Linear(2).matrix(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[11.,  2.]])
    """

    dim: int

    @property
    def code(self) -> int:
        """See `Kernel`."""
        return _LINEAR

    @property
    def rates(self) -> FloatArray:
        """See `Kernel`."""
        return np.ones(self.dim)


@dataclass(frozen=True)
class SquaredExponential(_Compiled):
    """exp(-sum_j (x_j - y_j)^2 / (2 l_j^2)), or, where it is `additive`, (1/d) sum_j exp(-(x_j - y_j)^2 / (2 l_j^2)).

    `scales` are l, one for each coordinate. k(x, x) = 1.

    >>> import numpy as np
    >>> float(SquaredExponential((0.5,)).matrix(np.array([[0.0]]), np.array([[0.5]]))[0, 0]) == float(np.exp(-0.5))
    True
    """

    scales: tuple[float, ...]
    additive: bool = False

    @property
    def dim(self) -> int:
        """See `Kernel`."""
        return len(self.scales)

    @property
    def code(self) -> int:
        """See `Kernel`."""
        return _ADDITIVE if self.additive else _PRODUCT

    @property
    def rates(self) -> FloatArray:
        """See `Kernel`."""
        return 1.0 / np.asarray(self.scales)

    @staticmethod
    def profile(r: FloatArray) -> FloatArray:
        """exp(-r^2/2): the kernel of two points that are r length scales apart, in one coordinate."""
        return np.asarray(np.exp(-(r**2) / 2))

    @staticmethod
    def waves(m: int) -> Waves:
        """(m,) frequencies omega, in units of 1/l, and weights Q with sum Q cos(omega r) = exp(-r^2/2), nearly: the
        spectral density N(0, 1) of one coordinate by Gauss-Hermite quadrature, exact for polynomials below degree 2m.
        """
        return _hermite(m)

    def frequencies(self, count: int, rng: np.random.Generator) -> FloatArray:
        """See `Stationary`: N(0, 1/l^2), in one coordinate at a time where the kernel is additive."""
        drawn = rng.standard_normal((count, self.dim))
        if self.additive:
            drawn *= rng.integers(self.dim, size=count)[:, None] == np.arange(self.dim)
        return np.asarray(drawn * self.rates)


@dataclass(frozen=True)
class Matern(_Compiled):
    """Functions that are less smooth: Matern's kernels of smoothness 1/2, 3/2 and 5/2.

        exp(-r),      (1 + sqrt(3) r) exp(-sqrt(3) r),      (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)

    with r = sqrt(sum_j (x_j - y_j)^2 / l_j^2), `scales` being l, one for each coordinate. k(x, x) = 1.

    The first with scales of 1 is exp(-||x - y||), the kernel in the released code of Dai et al. (ICLR 2023). Gauss'
    quadrature, which is for densities that fall faster than these, does not serve them; random features do.

    >>> import numpy as np
    >>> float(Matern((2.0,), 0.5).matrix(np.array([[1.0]]), np.array([[3.0]]))[0, 0]) == float(np.exp(-1.0))
    True
    """

    scales: tuple[float, ...]
    smoothness: float

    def __post_init__(self) -> None:
        if self.smoothness not in _MATERN:
            raise ValueError(f"smoothness must be 0.5, 1.5 or 2.5 (got {self.smoothness})")

    @property
    def dim(self) -> int:
        """See `Kernel`."""
        return len(self.scales)

    @property
    def code(self) -> int:
        """See `Kernel`."""
        return _MATERN[self.smoothness]

    @property
    def rates(self) -> FloatArray:
        """See `Kernel`."""
        return 1.0 / np.asarray(self.scales)

    def frequencies(self, count: int, rng: np.random.Generator) -> FloatArray:
        """See `Stationary`: Student's law of twice the smoothness degrees of freedom, over l."""
        freedom = 2 * self.smoothness
        stretch = np.sqrt(freedom / rng.chisquare(freedom, count))
        return np.asarray(rng.standard_normal((count, self.dim)) * stretch[:, None] * self.rates)


class Stationary(Kernel, Protocol):
    """A kernel of x - y with k(x, x) = 1: the mean of cos(<omega, x - y>) over frequencies omega of a law of its own
    (Bochner).
    """

    @abstractmethod
    def frequencies(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, d) draws from that law."""


KernelName = Literal["rbf", "matern-1/2", "matern-3/2", "matern-5/2", "linear"]
"""How configurations name a kernel."""
_SMOOTHNESS = {"matern-1/2": 0.5, "matern-3/2": 1.5, "matern-5/2": 2.5}


NamedKernel = Linear | SquaredExponential | Matern


def kernel_named(name: KernelName, lengthscales: float | tuple[float, ...], dim: int) -> NamedKernel:
    """The kernel of that name for points of dimension `dim`, with one length scale for all coordinates or one for each.

    >>> kernel_named("matern-3/2", 0.5, 2)
    Matern(scales=(0.5, 0.5), smoothness=1.5)
    """
    if name == "linear":
        return Linear(dim)
    scales = lengthscales if isinstance(lengthscales, tuple) else (lengthscales,) * dim
    if len(scales) != dim:
        raise ConfigError(
            f"lengthscale: {len(scales)} are given for arms of dimension {dim}; give one, or one for each"
        )
    return SquaredExponential(scales) if name == "rbf" else Matern(scales, _SMOOTHNESS[name])


def kernel_of(known: RKHS, dim: int) -> SquaredExponential:
    """The kernel in whose space mean rewards are known to lie."""
    try:
        return SquaredExponential(known.scales(dim), known.additive)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@lru_cache(maxsize=512)
def _hermite(m: int) -> Waves:
    zeros, weights = hermgauss(m)
    return math.sqrt(2) * zeros, weights / weights.sum()


@jit
def cross(code: int, rates: FloatArray, points: FloatArray, count: int, lanes: FloatArray, out: FloatArray) -> None:
    """k between the first `count` of `points` (C, d) and `lanes` (d, K) -> the first rows of `out` (C', K)."""
    d, width = lanes.shape
    for s in range(count):
        for k in range(width):
            out[s, k] = 0.0
        for j in range(d):
            if code == 0:
                for k in range(width):
                    out[s, k] = muladd(points[s, j], lanes[j, k], out[s, k])
            elif code == 2:
                for k in range(width):
                    apart = (points[s, j] - lanes[j, k]) * rates[j]
                    out[s, k] += exponential(-0.5 * apart * apart)
            else:
                for k in range(width):
                    apart = (points[s, j] - lanes[j, k]) * rates[j]
                    out[s, k] = muladd(apart, apart, out[s, k])
        if code == 1:
            for k in range(width):
                out[s, k] = exponential(-0.5 * out[s, k])
        elif code == 2:
            for k in range(width):
                out[s, k] /= d
        elif code == 3:
            for k in range(width):
                out[s, k] = exponential(-math.sqrt(out[s, k]))
        elif code == 4:
            for k in range(width):
                r = math.sqrt(3.0 * out[s, k])
                out[s, k] = (1.0 + r) * exponential(-r)
        elif code == 5:
            for k in range(width):
                r = math.sqrt(5.0 * out[s, k])
                out[s, k] = (1.0 + r + r * r / 3.0) * exponential(-r)


@jit
def own(code: int, lanes: FloatArray, out: FloatArray) -> None:
    """k(x, x) of `lanes` (d, K) -> `out` (K,)."""
    for k in range(lanes.shape[1]):
        out[k] = 0.0 if code == 0 else 1.0
    if code == 0:
        for j in range(lanes.shape[0]):
            for k in range(lanes.shape[1]):
                out[k] = muladd(lanes[j, k], lanes[j, k], out[k])
