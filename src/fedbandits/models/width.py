"""Widths of the confidence ellipsoid of ridge regression.

- a number: that constant, which is what practitioners tune and what the publications use on real data;
- ``"theory"``: sigma sqrt(2 log(1/delta) + log det V - d log lambda) + sqrt(lambda) S, the self-normalised bound of
  Abbasi-Yadkori, Pal & Szepesvari (2011): with probability at least 1 - delta the ellipsoid
  ||theta - theta*||_V <= width holds at all times at once, for statistics chosen without looking ahead;
- ``"loose"``: sigma sqrt(d log(1 + m/(d lambda)) + 2 log(1/delta)) + sqrt(lambda) S, the trace bound on it that some
  released codes use; m is the number of observations inside V, for arms of norm at most 1.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray

Width = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory", "loose"]


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
    if rule == "theory":
        volume = logdet - dim * np.log(ridge)
    elif rule == "loose":
        volume = dim * np.log1p(count / (dim * ridge))
    else:
        return np.full(len(logdet), float(rule))
    return np.asarray(noise * np.sqrt(2 * np.log(1 / delta) + volume) + np.sqrt(ridge) * bound)
