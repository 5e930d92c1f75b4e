"""One algorithm has less of something than others."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from fedbandits.contract.arrays import FloatArray
from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.interval import FEWEST_SEEDS
from fedbandits.findings.claims.pairing import means, paired
from fedbandits.findings.claims.verdict import Finding, Verdict, all_of
from fedbandits.findings.numbers import number


class Less(BaseClaim):
    """`metric` of `of` is below `factor` times that of `than`, plus `plus`: interval of the paired differences, against
    zero.

    `than` may be several algorithms: below each of them. `since`, a share of the run, leaves out what had been
    accumulated by the last step kept up to then. With `every` it is a claim about each run and not about the mean: it
    fails where a single seed speaks against it.
    """

    kind: Literal["less"]
    metric: str
    of: str
    than: str | Annotated[list[str], Field(min_length=1)]
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    plus: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    since: Annotated[float, Field(ge=0, lt=1)] = 0.0
    every: bool = False

    @property
    def others(self) -> list[str]:
        """The algorithms it is below."""
        return [self.than] if isinstance(self.than, str) else self.than

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return [self.of, *self.others]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        columns = [self._by_seed(final, label, self.metric) for label in self.labels]
        if self.since > 0:
            columns = [end - self._before(frame, label) for end, label in zip(columns, self.labels, strict=True)]
        pairs = paired(columns)
        apart = [pairs[:, 0] - self.factor * other - self.plus for other in pairs.T[1:]]
        gaps = [self._interval(gap, len(self.others)) for gap in apart]
        of, *than = means(pairs)
        times = "" if self.factor == 1 else f" {number(self.factor)} times"
        plus = "" if self.plus == 0 else f" and {number(self.plus)}"
        told = (
            f"{number(level)} of {other}{plus}; difference {gap}"
            + (f", {number(runs.max())} in the worst run" if self.every else "")
            for level, other, gap, runs in zip(than, self.others, gaps, apart, strict=True)
        )
        after = f" after {100 * self.since:g} % of the run" if self.since > 0 else ""
        return self._says(
            all_of([_in_each(runs) if self.every else gap.below(0) for gap, runs in zip(gaps, apart, strict=True)]),
            f"{self.metric}{after} {number(of)} of {self.of},{times} " + f";{times} ".join(told),
            len(pairs),
            [] if self.every else [gap.seeds_to_decide(0) for gap in gaps if gap.below(0) == "undecided"],
            of=of,
            than=dict(zip(self.others, than, strict=True)),
            difference={other: gap.plain() for other, gap in zip(self.others, gaps, strict=True)},
        )

    def _before(self, frame: pd.DataFrame, label: str) -> pd.Series:
        """What had been accumulated by the last step kept up to `since`, by seed; nothing where none is kept."""
        rows = self._rows(frame, label)
        ends = rows.groupby("seed")["step"].transform("max")
        early = rows[rows["step"] <= self.since * ends].sort_values("step").drop_duplicates("seed", keep="last")
        return self._by_seed(early, label, self.metric).reindex(rows["seed"].unique(), fill_value=0.0)


def _in_each(gaps: FloatArray) -> Finding:
    """Whether all of `gaps` (seeds,) are below zero; nothing is decided by too few of them."""
    if len(gaps) < FEWEST_SEEDS or np.isnan(gaps).any():
        return "undecided"
    return "holds" if (gaps < 0).all() else "fails"
