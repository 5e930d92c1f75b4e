"""What all kinds of claims have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.claims.interval import CONFIDENCE, FEWEST_SEEDS, Interval
from fedbandits.findings.claims.strata import Strata
from fedbandits.findings.claims.verdict import Finding, Verdict
from fedbandits.findings.metrics import measure
from fedbandits.findings.numbers import rounded


class BaseClaim(BaseModel):
    """A sentence about results that `judge` can hold against them; `kind` tells one kind from another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Annotated[str, Field(min_length=1)]
    at: dict[str, Any] = {}
    """The sweep point spoken of: column name to value."""
    seeds: Annotated[int, Field(ge=1)] | None = None
    """How many seeds it is judged by, where those of the experiment are too few: under them runs what it speaks of."""
    looks: Annotated[int, Field(ge=1)] = 1
    """How many times it has been looked at, with fewer seeds before: each look has its share of the 5 % that a verdict
    may be wrong by, for who looks until something is decided is wrong more often.
    """

    @property
    def labels(self) -> list[str]:
        """The algorithms spoken of."""
        raise NotImplementedError

    @property
    def metrics(self) -> list[str]:
        """The quantities spoken of."""
        return [self.metric] if hasattr(self, "metric") else []

    @property
    def columns(self) -> list[str]:
        """The sweep columns spoken of."""
        return list(self.at)

    @property
    def about_course(self) -> bool:
        """Whether it is about how runs went, and not about how they ended alone."""
        return False

    def speaks_of(self, label: str, point: Mapping[str, Any]) -> bool:
        """Whether runs of an algorithm at a sweep point have a say in it."""
        return label in self.labels and all(point.get(name) == value for name, value in self.at.items())

    @property
    def kinds(self) -> Strata | None:
        """The kinds of instances it asks for seeds of; None where it takes seeds as they come, which then are the only
        ones it may be judged by.
        """
        return getattr(self, "strata", None)

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """The verdict by the runs in `frame`, whose last rows are `final`."""
        raise NotImplementedError

    def _interval(self, values: FloatArray, comparisons: int = 1, sides: int = 2) -> Interval:
        """That of one of so many comparisons, in one of so many looks."""
        return Interval.over(values, comparisons * self.looks, sides)

    def _share(self, hits: BoolArray, comparisons: int = 1) -> Interval:
        """Of seeds; as `_interval`."""
        return Interval.share(hits, comparisons * self.looks)

    def _by_seed(self, rows: pd.DataFrame, label: str, metric: str) -> pd.Series:
        """The metric of one algorithm at one point, by seed."""
        chosen = self._rows(rows, label)
        if chosen["seed"].duplicated().any():
            raise ConfigError(f"claim {self.text!r}: {label} was run at several sweep points; say which one in `at`")
        return pd.Series(measure(chosen, metric).to_numpy(), index=chosen["seed"].to_numpy())

    def _rows(self, rows: pd.DataFrame, label: str) -> pd.DataFrame:
        mask = rows["algorithm"] == label
        for column, value in self.at.items():
            mask &= rows[column] == value
        return rows[mask]

    def _says(
        self, verdict: Finding, measured: str, seeds: int, needed: Iterable[int | None] = (), **details: Any
    ) -> Verdict:
        """`needed` are how many seeds each of the comparisons would take to be decided (`Interval.seeds_to_decide`)."""
        told = [measured, f"{seeds} seeds are too few to decide" if seeds < FEWEST_SEEDS else f"{seeds} seeds"]
        if self.looks > 1:
            told.append(f"look {self.looks}, at {100 * (1 - CONFIDENCE) / self.looks:.2g} %")
        known = {"kind": getattr(self, "kind", ""), "seeds": seeds, "looks": self.looks}
        numbers = list(needed)
        if verdict == "undecided" and numbers and all(number is not None for number in numbers):
            most = max(number for number in numbers if number is not None)
            told.append(f"about {rounded(most)} like these would decide")
            known["seeds_to_decide"] = most
        return Verdict(self.text, verdict, "; ".join(told), known | details)
