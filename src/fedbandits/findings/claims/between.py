"""The mean of something lies in a range."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.verdict import Verdict, all_of
from fedbandits.findings.metrics import measure


class Between(BaseClaim):
    """The mean of `metric` of `of` lies in [low, high]: interval over seeds.

    At every point of a sweep that `at` leaves open; k points have intervals of confidence 1 - 0.05/k each.
    """

    kind: Literal["between"]
    metric: str
    of: str
    low: float = -np.inf
    high: float = np.inf

    @model_validator(mode="after")
    def _is_a_range(self) -> Between:
        if self.low > self.high:
            raise ValueError(f"`low` ({self.low}) must not exceed `high` ({self.high})")
        return self

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return [self.of]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        rows = self._rows(final, self.of)
        open_axes = [name for name in rows.columns[1 : rows.columns.get_loc("seed")] if rows[name].nunique() > 1]
        points = list(rows.groupby(open_axes, sort=False)) if open_axes else [((), rows)]
        means = {
            ", ".join(f"{axis}={value}" for axis, value in zip(open_axes, point, strict=True)): self._interval(
                measure(group, self.metric).to_numpy(), comparisons=len(points)
            )
            for point, group in points
        }
        found = {point: mean.within(self.low, self.high) for point, mean in means.items()}
        open_means = [mean for point, mean in means.items() if found[point] == "undecided"]
        told = "; ".join(f"{mean} at {point}" if point else str(mean) for point, mean in means.items())
        return self._says(
            all_of(list(found.values())),
            f"{self.metric} of {self.of} {told}",
            min(mean.seeds for mean in means.values()),
            [mean.seeds_to_decide(self.low, self.high) for mean in open_means],
            **({"means": {point: mean.plain() for point, mean in means.items()}} if open_axes else {}),
            **({} if open_axes else {"mean": means[""].plain()}),
        )
