"""Reward laws: what is observed when an arm with a given score <theta, x> is taken.

A law draws one shock for each decision beforehand; the reward is a function of the mean reward and the shock. The same
choice under the same seed is therefore rewarded alike, whoever makes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import gamma

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.compiled import ADDED, BELOW
from fedbandits.graphs.network import Outliers
from fedbandits.linalg.jit import jit
from fedbandits.linalg.links import LinkName, MeanFunction, means


class Law(Protocol):
    """How scores become mean rewards, and mean rewards observed ones. One of which compiled loops know how it does the
    latter, from one shock for each decision, has the number of that way as `compiled` (`contract.compiled`), and
    perhaps a `height`; see `in_block`.
    """

    def means(self, scores: FloatArray) -> FloatArray:
        """Mean rewards of arms with the given scores <theta, x>."""

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """The randomness of decisions: a number for each, or a row of them behind the axes of `shape`."""

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """Observed rewards."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """y = <theta, x> + N(0, noise^2)."""

    noise: float
    compiled: ClassVar[int] = ADDED

    def means(self, scores: FloatArray) -> FloatArray:
        """The scores themselves."""
        return scores

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Noise."""
        return self.noise * rng.standard_normal(shape)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """Mean plus noise."""
        return means + shocks


@dataclass(frozen=True, slots=True)
class Uniform:
    """y = <theta, x> + uniform noise of standard deviation `noise`, which is also its sub-Gaussian constant."""

    noise: float
    compiled: ClassVar[int] = ADDED

    @property
    def reach(self) -> float:
        """The largest noise there is."""
        return math.sqrt(3) * self.noise

    def means(self, scores: FloatArray) -> FloatArray:
        """The scores themselves."""
        return scores

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Noise."""
        return self.reach * (2 * rng.random(shape) - 1)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """Mean plus noise."""
        return means + shocks


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """y is 1 with probability mu(<theta, x>), else 0: clicks."""

    link: LinkName
    compiled: ClassVar[int] = BELOW

    def means(self, scores: FloatArray) -> FloatArray:
        """mu of the scores; under the identity link these very scores."""
        return scores if self.link == "identity" else means(MeanFunction(self.link).code, scores)

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Uniform numbers."""
        return rng.random(shape)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """1 where the uniform number lies below the mean."""
        return (shocks < means).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Poisson:
    """y is Poisson with mean exp(<theta, x>): counts."""

    def means(self, scores: FloatArray) -> FloatArray:
        """exp of the scores."""
        return np.exp(scores)

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Uniform numbers."""
        return rng.random(shape)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """By inversion of the distribution function."""
        from scipy.stats import poisson  # slow to load, and seldom needed

        return np.asarray(poisson.ppf(shocks, means), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class TwoPoint:
    """y is `value` with probability mean / value, else 0: a scaled Bernoulli law, for means in [0, value]."""

    value: float
    compiled: ClassVar[int] = BELOW

    @property
    def height(self) -> float:
        """See `Law`."""
        return self.value

    def means(self, scores: FloatArray) -> FloatArray:
        """The scores themselves."""
        return scores

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Uniform numbers."""
        return rng.random(shape)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """`value` where the uniform number lies below the probability."""
        return np.where(self.value * shocks < means, self.value, 0.0)

    def central_moment(self, mean: float, order: float) -> float:
        """E|y - mean|^order."""
        chance = mean / self.value
        return float(chance * (self.value - mean) ** order + (1 - chance) * mean**order)


@dataclass(frozen=True, slots=True)
class Stable:
    """y = <theta, x> + scale Z, Z standard symmetric alpha-stable: E exp(itZ) = exp(-|t|^alpha), 1 < alpha <= 2.

    For alpha = 2, Z is N(0, 2). Below 2 its variance is infinite, and moments are finite for orders below alpha alone.
    """

    alpha: float
    scale: float
    compiled: ClassVar[int] = ADDED

    def means(self, scores: FloatArray) -> FloatArray:
        """The scores themselves."""
        return scores

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Noise, by the method of Chambers, Mallows & Stuck (1976)."""
        angle = rng.random(shape)
        weight = rng.standard_exponential(shape)
        _make_stable(self.alpha, self.scale, angle.reshape(-1), weight.reshape(-1))
        return angle

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """Mean plus noise."""
        return means + shocks

    def central_moment(self, order: float) -> float:
        """E|scale Z|^p = scale^p 2^p Gamma((p+1)/2) Gamma(1 - p/alpha) / (sqrt(pi) Gamma(1 - p/2)), 0 < p < alpha.

        For alpha = 2 the last two Gammas cancel, and p may be anything.
        """
        gaussian = (2 * self.scale) ** order * gamma((order + 1) / 2) / math.sqrt(math.pi)
        if self.alpha == 2:
            return float(gaussian)
        if order >= self.alpha:
            return math.inf
        return float(gaussian * gamma(1 - order / self.alpha) / gamma(1 - order / 2))


@jit
def _make_stable(alpha: float, scale: float, angle: FloatArray, weight: FloatArray) -> None:
    """Turn uniform numbers `angle` into stable ones in place, with the help of exponential numbers `weight`.

    With U uniform on (-pi/2, pi/2) and W exponential,
    Z = sin(alpha U) / cos(U)^(1/alpha) * (W / cos((alpha - 1) U))^((alpha - 1)/alpha).
    """
    power = 1.0 / alpha
    for i in range(len(angle)):
        u = math.pi * (angle[i] - 0.5)
        spread = (weight[i] / math.cos((alpha - 1.0) * u)) ** (1.0 - power)
        angle[i] = scale * math.sin(alpha * u) * spread / math.cos(u) ** power


@dataclass(frozen=True, slots=True)
class Contaminated:
    """Huber contamination: with probability `rate`, what is observed is drawn from Q instead of `law`.

    Q is the number `outlier`, or N(0, outlier^2), or Cauchy with scale `outlier`; see `Outliers`. Means are those of
    `law`, hence regret is that of clean rewards. Under one seed a decision's clean shock is the same at every rate, and
    what is contaminated at a low rate is contaminated at a higher one, by the same outlier.
    """

    law: Law
    rate: float
    outliers: Outliers
    outlier: float

    def means(self, scores: FloatArray) -> FloatArray:
        """Mean rewards before contamination."""
        return self.law.means(scores)

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """(*shape, 2): the shock of `law`, and the outlier that is seen instead, NaN where there is none."""
        fate = rng.spawn(1)[0]  # leaves the numbers that `rng` draws as they are without contamination
        drawn = np.empty((*shape, 2))
        drawn[..., 0] = self.law.shocks(rng, shape)
        clean = fate.random(shape) >= self.rate
        drawn[..., 1] = self.outlier
        if self.outliers == "gaussian":
            drawn[..., 1] *= fate.standard_normal(shape)
        elif self.outliers == "cauchy":
            drawn[..., 1] *= fate.standard_cauchy(shape)
        drawn[clean, 1] = np.nan
        return drawn

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """The outlier where there is one, else the reward by `law`."""
        outlier = shocks[..., 1]
        return np.where(np.isnan(outlier), self.law.rewards(means, shocks[..., 0]), outlier)


def in_block(law: Law, shocks: FloatArray) -> dict[str, Any] | None:
    """The parts of a `Block` that say how rewards are made of `shocks`; None where compiled loops do not know."""
    if isinstance(law, Contaminated):
        clean = in_block(law.law, np.ascontiguousarray(shocks[..., 0]))
        return None if clean is None else clean | {"outliers": np.ascontiguousarray(shocks[..., 1])}
    code = getattr(law, "compiled", None)
    return None if code is None else {"law": code, "height": float(getattr(law, "height", 1.0)), "shocks": shocks}


def law_of(link: LinkName, noise: float) -> Law:
    """The law that goes with a link."""
    if link == "identity":
        return Gaussian(noise)
    return Poisson() if link == "poisson" else Bernoulli(link)
