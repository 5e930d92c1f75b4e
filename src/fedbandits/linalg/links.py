"""Mean functions of generalized linear models: E[y | x] = mu(<theta, x>).

The loss of an observation is l(z, y) = -y z + m(z) with m' = mu, convex in z since mu rises; its gradient in theta is
x (mu(z) - y). For logistic, Poisson and identity this is the negative log-likelihood; for probit it is not, but its
minimiser is consistent all the same, since E[mu(z) - y] = 0 at the truth.

The functions are compiled and take the link as a number, so that kernels can be written once for all links.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.exponential import exponential, exponentials
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.simd import add, load, mul, over, store, target, zero

LinkName = Literal["logistic", "probit", "poisson", "identity"]
_CODES: dict[LinkName, int] = {"logistic": 0, "probit": 1, "poisson": 2, "identity": 3}
_ROOT_TWO = math.sqrt(2.0)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_SIDE_BY_SIDE = 2
"""Registers that go through an exponential at once."""


@jit
def mean(code: int, z: float) -> float:
    """mu(z)."""
    if code == 0:
        return 1.0 / (1.0 + exponential(-z))
    if code == 1:
        return 0.5 * math.erfc(-z / _ROOT_TWO)
    if code == 2:
        return exponential(z)
    return z


@jit
def slope(code: int, z: float) -> float:
    """mu'(z)."""
    if code == 0:
        p = mean(0, z)
        return p * (1.0 - p)
    if code == 1:
        return exponential(-0.5 * z * z) / _ROOT_TWO_PI
    if code == 2:
        return exponential(z)
    return 1.0


@jit
def cumulant(code: int, z: float) -> float:
    """m(z), with m' = mu."""
    if code == 0:
        return max(z, 0.0) + math.log1p(exponential(-abs(z)))
    if code == 1:
        return z * mean(1, z) + slope(1, z)
    if code == 2:
        return exponential(z)
    return 0.5 * z * z


@dataclass(frozen=True, slots=True)
class MeanFunction:
    """A link by name, with the constants theory needs for |z| <= reach."""

    name: LinkName
    reach: float = 1.0
    """Bound on |<theta, x>|: S for arms of norm at most 1."""

    @property
    def code(self) -> int:
        """The number kernels know it by."""
        return _CODES[self.name]

    @property
    def steepest(self) -> float:
        """k, the Lipschitz constant of mu on [-reach, reach]."""
        return {
            "logistic": 0.25,
            "probit": 1.0 / _ROOT_TWO_PI,
            "poisson": math.exp(self.reach),
            "identity": 1.0,
        }[self.name]

    @property
    def flattest(self) -> float:
        """c, the least slope of mu on [-reach, reach]."""
        return float(min(slope(self.code, -self.reach), slope(self.code, self.reach)))


@jit
def means(code: int, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """mu of every entry."""
    flat = z.copy().ravel()
    to_means(code, flat, len(flat))
    return flat.reshape(z.shape)


@jit_part
def to_means(code: int, z: NDArray[np.float64], count: int) -> None:
    """Put mu in the place of the first `count` entries."""
    if code == 0:
        out, whole = target(z, 0), count - count % (4 * _SIDE_BY_SIDE)
        for i in range(0, whole, 4 * _SIDE_BY_SIDE):
            lanes = load(zero(_SIDE_BY_SIDE), out, i)
            store(out, i, over(1.0, add(exponentials(mul(-1.0, lanes)), 1.0)))
        for i in range(whole, count):
            z[i] = mean(0, z[i])
    else:
        for i in range(count):
            z[i] = mean(code, z[i])


@jit_part
def to_slopes(code: int, z: NDArray[np.float64], mu: NDArray[np.float64], count: int) -> None:
    """Put mu' in the place of the first `count` entries of `z`, whose means are `mu`."""
    if code == 0:
        for i in range(count):
            z[i] = mu[i] * (1.0 - mu[i])
    else:
        for i in range(count):
            z[i] = slope(code, z[i])


@jit_part
def total_cumulant(code: int, z: NDArray[np.float64], mu: NDArray[np.float64], count: int) -> float:
    """The sum of m over the first `count` entries of `z`, 1000 at the most, whose means are `mu`.

    For logistic m(z) = max(z, 0) - log max(mu, 1 - mu): one logarithm for all, of a product of numbers between 1/2 and
    1, off by 1e-16 for each.
    """
    total = 0.0
    if code == 0:
        surer = 1.0
        for i in range(count):
            total += max(z[i], 0.0)
            surer *= max(mu[i], 1.0 - mu[i])
        return total - math.log(surer)
    for i in range(count):
        total += cumulant(code, z[i])
    return total
