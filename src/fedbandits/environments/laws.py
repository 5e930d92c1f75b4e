"""Reward laws: what is observed when an arm with a given score <theta, x> is taken.

A law draws one shock for each decision beforehand; the reward is a function of the mean reward and the shock. The same
choice under the same seed is therefore rewarded alike, whoever makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import poisson

from fedbandits.arrays import FloatArray
from fedbandits.linalg.links import Link, LinkName, means


class Law(Protocol):
    """How scores become mean rewards, and mean rewards observed ones."""

    def means(self, scores: FloatArray) -> FloatArray:
        """Mean rewards of arms with the given scores <theta, x>."""

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """The randomness of decisions."""

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """Observed rewards."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """y = <theta, x> + N(0, noise^2)."""

    noise: float

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
class Bernoulli:
    """y is 1 with probability mu(<theta, x>), else 0: clicks."""

    link: LinkName

    def means(self, scores: FloatArray) -> FloatArray:
        """mu of the scores."""
        return means(Link(self.link).code, scores)

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
        return np.asarray(poisson.ppf(shocks, means), dtype=np.float64)


def law_of(link: LinkName, noise: float) -> Law:
    """The law that goes with a link."""
    if link == "identity":
        return Gaussian(noise)
    return Poisson() if link == "poisson" else Bernoulli(link)
