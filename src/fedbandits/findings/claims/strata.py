"""Kinds of instances, so that seeds are spent where runs differ most (Neyman 1934; Cochran 1977, chapter 5)."""

from __future__ import annotations

import math
from typing import Annotated, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.contract.world import Environment
from fedbandits.findings.claims.interval import FEWEST_SEEDS
from fedbandits.simulation.instances import HARDNESS, kind_of, seeds_of_kinds

_OFF = 1e-4
"""By how much shares may miss 1 for having been rounded."""


class Strata(BaseModel):
    """Of each kind of instance as many seeds as told, the first that are of it.

    `by` (such as `smallest_gap`) is what can be told of an instance before anybody has played it. Kind h has values up
    to `upto[h]`, the last one all beyond. It is a share `shares[h]` of all instances, and has `seeds[h]` seeds. A mean
    over all instances is then sum_h share_h mean_h, with variance sum_h share_h^2 s_h^2 / n_h, whichever n_h were
    chosen: least for n_h in proportion to share_h s_h.

    Unbiased as long as seeds are chosen for their instance alone, and the shares are right: they are those of the
    environment's law, and hold the seeds that are met against them (`instances.seeds_of_kinds`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    by: str
    upto: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]
    shares: list[Annotated[float, Field(gt=0, lt=1)]]
    seeds: list[Annotated[int, Field(ge=FEWEST_SEEDS)]]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.by not in HARDNESS:
            raise ValueError(f"by: unknown measure {self.by!r} of instances; {hint(self.by, list(HARDNESS))}")
        if any(low >= high for low, high in zip(self.upto, self.upto[1:], strict=False)):
            raise ValueError(f"upto: must ascend (got {self.upto})")
        for name, given in (("shares", self.shares), ("seeds", self.seeds)):
            if len(given) != len(self.upto) + 1:
                raise ValueError(f"{name}: one for each kind, {len(self.upto) + 1}, is needed (got {len(given)})")
        if abs(math.fsum(self.shares) - 1) > _OFF:
            raise ValueError(f"shares: must add up to 1 (they make {math.fsum(self.shares):.6g})")
        return self

    @property
    def weights(self) -> FloatArray:
        """(H,) the shares, adding up to 1 exactly."""
        shares = np.asarray(self.shares)
        return np.asarray(shares / shares.sum())

    def chosen(self, environment: Environment, horizon: int, first: int = 0) -> list[int]:
        """The seeds to be run, from `first` on."""
        try:
            return seeds_of_kinds(environment, horizon, self.by, self.upto, self.shares, self.seeds, first)
        except ConfigError as error:
            raise ConfigError(f"strata.{error}") from None

    def kinds(self, hardness: pd.Series) -> IntArray:
        """(seeds,) the kind of each seed, of its `hardness`; -1 for those beyond the first of their kind that are asked
        for, whatever else they have been run for.
        """
        if hardness.isna().any():
            raise ConfigError(
                f"strata.by: {self.by} is not known of all runs; those of an earlier version have to be run again, and "
                "where arms change nobody can tell"
            )
        found = pd.Series([kind_of(value, self.upto) for value in hardness], index=hardness.index, dtype=np.int64)
        place = found.sort_index().groupby(found).cumcount().reindex(found.index)
        return np.where(place < np.asarray(self.seeds)[found], found, -1)
