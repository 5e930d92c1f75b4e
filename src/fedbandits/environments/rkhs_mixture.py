"""Clicks whose probability is a mixture of kernels (Dubey 2022, section 7.6)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS, Fact, Noise, Range
from fedbandits.contract.parameters import parameters
from fedbandits.environments.arms import ArmSource
from fedbandits.environments.laws import Bernoulli, Law
from fedbandits.environments.linear import unit_rows
from fedbandits.environments.smooth import Smooth
from fedbandits.linalg.kernels import aligned
from fedbandits.models.kernels import SquaredExponential

_PROBES = 4096
"""Points at which a function is tried."""
_LEAST = 0.01
"""The share of the ball that has to be good enough for the best arm, and poor enough for the others."""
_TRIES = 5_000
"""Functions that are drawn before the search is given up; one in 120 will do, with the thesis' parameters."""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Level = Annotated[float, Field(ge=0, le=1)]


@parameters
class RKHSMixture(Smooth):
    """Clicks of probability f(x) = sum_i alpha_i k(c_i, x), for a squared-exponential kernel of length `lengthscale`.

    As in the thesis: `centres` points c_i uniform in the ball of radius `radius`, alpha uniform in the unit ball of the
    1-norm, hence B = 1; of the K arms of a decision, which lie in the same ball, one has f(x) >= `high` and all others
    have f(x) <= `low`. Arms are uniform among those; the best one's place is random.

    The thesis says that this "is implemented somewhat crudely by iterative sampling". Here: functions are drawn anew
    until at least 1 % of the ball is good enough and 1 % poor enough, as about one in 120 is; arms are drawn anew until
    they fit; and since probabilities are not negative, arms with f(x) < 0 fit nowhere.
    """

    dim: Annotated[int, Field(ge=1)] = 2
    centres: Annotated[int, Field(ge=1)] = 4
    lengthscale: _Positive = 1.0
    radius: _Positive = 2.0
    low: _Level = 0.6
    high: _Level = 0.8

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="rkhs-mixture",
        family="gp",
        summary="clicks whose probability is a mixture of kernels, one arm better than the others by a gap",
        source="Dubey (2022), thesis, section 7.6",
    )

    @model_validator(mode="after")
    def _has_a_gap(self) -> RKHSMixture:
        if self.low > self.high:
            raise ValueError(f"low={self.low:g} must not be above high={self.high:g}")
        return self

    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        kernel = SquaredExponential((self.lengthscale,) * self.dim)
        probes = in_ball(rng, _PROBES, self.dim, self.radius)
        for _ in range(_TRIES):
            centres = in_ball(rng, self.centres, self.dim, self.radius)
            mixture = Mixture(kernel, centres, _in_one_ball(rng, self.centres))
            if mixture.weights.clip(min=0).sum() < self.high:  # no value can be larger
                continue
            values = mixture(probes)
            good = float((values >= self.high).mean())
            poor = float(((values >= 0) & (values <= self.low)).mean())
            if good >= _LEAST and (poor >= _LEAST or self.arms == 1):
                return MixtureArms(self, mixture, good, poor), self.dim
        raise ConfigError(
            f"rkhs-mixture: none of {_TRIES} functions reaches high={self.high:g} in a hundredth of the ball and stays "
            f"below low={self.low:g} in another; lower high, raise low, or take fewer centres, a smaller radius or a "
            "longer lengthscale"
        )

    def _law(self) -> Law:
        return Bernoulli("identity")

    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        return Noise(0.5), Range(0.0, 1.0), RKHS(self.lengthscale, low=-self.radius, high=self.radius)


class Mixture:
    """f(x) = sum_i alpha_i k(c_i, x), with `centres` c (m, d) and `weights` alpha (m,)."""

    def __init__(self, kernel: SquaredExponential, centres: FloatArray, weights: FloatArray) -> None:
        self.kernel = kernel
        self.centres = centres
        self.weights = weights

    def __call__(self, points: FloatArray) -> FloatArray:
        """(m, d) -> (m,)."""
        return np.asarray(self.kernel.matrix(points, self.centres) @ self.weights)


class MixtureArms:
    """K new arms for every decision: one of value `high` at least, the others of `low` at most; `good` and `poor` are
    the shares of the ball where such arms are found.
    """

    def __init__(self, parameters: RKHSMixture, mixture: Mixture, good: float, poor: float) -> None:
        self.mixture = mixture
        self._given = parameters
        self._good, self._poor = good, poor
        # as many points as are tried for one decision
        self.size = math.ceil(parameters.dim * (1 / good + (parameters.arms - 1) / max(poor, _LEAST)))

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        given, turns = self._given, who.size
        arms, values = np.empty((turns, given.arms, given.dim)), np.empty((turns, given.arms))
        arms[:, 0], values[:, 0] = self._drawn(rng, turns, given.high, 1.0, self._good)
        others, known = self._drawn(rng, turns * (given.arms - 1), 0.0, given.low, self._poor)
        arms[:, 1:] = others.reshape(turns, given.arms - 1, given.dim)
        values[:, 1:] = known.reshape(turns, given.arms - 1)
        place, rows = rng.integers(given.arms, size=turns), np.arange(turns)
        arms[rows, 0], arms[rows, place] = arms[rows, place], arms[rows, 0].copy()
        values[rows, 0], values[rows, place] = values[rows, place], values[rows, 0].copy()
        lanes = aligned((*who.shape, given.dim, given.arms))
        lanes[...] = arms.reshape(*who.shape, given.arms, given.dim).swapaxes(-1, -2)
        return lanes, values.reshape(*who.shape, given.arms)

    def _drawn(
        self, rng: np.random.Generator, count: int, low: float, high: float, share: float
    ) -> tuple[FloatArray, FloatArray]:
        """(count, d) points uniform among those with values between `low` and `high`, and their values (count,)."""
        points, values = [np.empty((0, self._given.dim))], [np.empty(0)]
        missing = count
        while missing > 0:
            tried = in_ball(rng, int(1.2 * missing / share) + 16, self._given.dim, self._given.radius)
            found = self.mixture(tried)
            fits = (found >= low) & (found <= high)
            points.append(tried[fits])
            values.append(found[fits])
            missing -= int(fits.sum())
        return np.concatenate(points)[:count], np.concatenate(values)[:count]


def in_ball(rng: np.random.Generator, count: int, dim: int, radius: float) -> FloatArray:
    """(count, dim) points uniform in the ball around 0."""
    return np.asarray(radius * rng.random((count, 1)) ** (1 / dim) * unit_rows(rng, count, dim))


def _in_one_ball(rng: np.random.Generator, dim: int) -> FloatArray:
    """(dim,) a point uniform in the unit ball of the 1-norm: exponential numbers over the sum of one more of them."""
    sizes = rng.standard_exponential(dim + 1)
    return np.asarray(rng.choice([-1.0, 1.0], size=dim) * sizes[:dim] / sizes.sum())
