"""Widths of the confidence ellipsoid of ridge regression.

- a number: that constant, which is what practitioners tune and what the publications use on real data;
- ``"theory"``: sigma sqrt(2 log(1/delta) + log det V - d log lambda) + sqrt(lambda) S, the self-normalised bound of
  Abbasi-Yadkori, Pal & Szepesvari (2011): with probability at least 1 - delta the ellipsoid
  ||theta - theta*||_V <= width holds at all times at once, for statistics chosen without looking ahead;
- ``"loose"``: sigma sqrt(d log(1 + m/(d lambda)) + 2 log(1/delta)) + sqrt(lambda) S, the trace bound on it that some
  released codes use; m is the number of observations inside V, for arms of norm at most 1.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg.jit import jit, jit_part

Width = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory", "loose"]


CONSTANT, BY_VOLUME, BY_COUNT = 0, 1, 2


class Radius(NamedTuple):
    """A width as a function of what a model knows: sigma sqrt(base + volume) + prior, the volume being log det V -
    `origin`, or `dim` log(1 + m/`scale`); or the constant `prior`; all of it `times` as wide. Compiled loops take it as
    it is.
    """

    code: int
    sigma: float = 0.0
    base: float = 0.0
    prior: float = 0.0
    origin: float = 0.0
    dim: float = 1.0
    scale: float = 1.0
    times: float = 1.0

    def __call__(self, logdet: FloatArray, count: FloatArray) -> FloatArray:
        """(w,) widths for models with log-determinants `logdet` (w,) resting on `count` (w,) observations."""
        return _widths(self, logdet, count)


def radius(rule: Width, *, noise: float, bound: float, ridge: float, delta: float, dim: int) -> Radius:
    """The width that `rule` stands for."""
    if not isinstance(rule, str):
        return Radius(CONSTANT, prior=float(rule))
    base, prior = float(2 * np.log(1 / delta)), float(np.sqrt(ridge) * bound)
    if rule == "theory":
        return Radius(BY_VOLUME, noise, base, prior, origin=float(dim * np.log(ridge)))
    return Radius(BY_COUNT, noise, base, prior, dim=float(dim), scale=dim * ridge)


def widths(
    rule: Width,
    *,
    noise: float,
    bound: float,
    ridge: float,
    delta: float,
    dim: int,
    logdet: FloatArray,
    count: FloatArray,
) -> FloatArray:
    """(w,) widths for models with log-determinants `logdet` (w,) resting on `count` (w,) observations."""
    return radius(rule, noise=noise, bound=bound, ridge=ridge, delta=delta, dim=dim)(logdet, count)


@jit_part
def width_at(rule: Radius, logdet: float, count: float) -> float:
    """The width for one model."""
    if rule.code == CONSTANT:
        return rule.times * rule.prior
    volume = logdet - rule.origin if rule.code == BY_VOLUME else rule.dim * np.log1p(count / rule.scale)
    width: float = rule.times * (rule.sigma * np.sqrt(rule.base + volume) + rule.prior)
    return width


@jit
def _widths(rule: Radius, logdet: FloatArray, count: FloatArray) -> FloatArray:
    out = np.empty(len(logdet))
    for a in range(len(logdet)):
        out[a] = width_at(rule, logdet[a], count[a])
    return out
