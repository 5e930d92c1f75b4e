"""Figures that a publication printed, to be shown beside ours. They are no claims: nothing is judged by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from fedbandits.findings.metrics import measure


@dataclass(frozen=True, slots=True)
class Beside:
    """A published figure and ours: the mean over `seeds` seeds and its standard error, NaN where there is none."""

    label: str
    metric: str
    point: Mapping[str, Any]
    value: float
    where: str
    mean: float
    error: float
    seeds: int


class Published(BaseModel):
    """`value` was printed for `metric` of algorithm `of` at sweep point `at`; `where` says in which table or figure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    metric: str
    value: Annotated[float, Field(allow_inf_nan=False)]
    where: Annotated[str, Field(min_length=1)]
    at: dict[str, Any] = {}

    def speaks_of(self, label: str, point: Mapping[str, Any]) -> bool:
        """Whether this is the case meant."""
        return label == self.of and dict(point) == self.at

    def beside(self, final: pd.DataFrame) -> Beside:
        """The figure beside that of the last rows `final` of the runs."""
        mask = final["algorithm"] == self.of
        for column, value in self.at.items():
            mask &= final[column] == value
        ours = measure(final[mask], self.metric).to_numpy(dtype=np.float64)
        mean = float(np.mean(ours)) if len(ours) else float("nan")
        error = float(np.std(ours, ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else float("nan")
        return Beside(self.of, self.metric, self.at, self.value, self.where, mean, error, len(ours))
