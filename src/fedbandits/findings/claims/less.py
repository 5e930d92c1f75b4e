"""One algorithm has less of something than others."""

from __future__ import annotations

from typing import Annotated, Literal

import pandas as pd
from pydantic import Field

from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.interval import Interval
from fedbandits.findings.claims.pairing import means, paired
from fedbandits.findings.claims.verdict import Verdict, all_of
from fedbandits.findings.numbers import number


class Less(BaseClaim):
    """`metric` of `of` is below `factor` times that of `than`: interval of the paired differences, against zero.

    `than` may be several algorithms: below each of them. `since`, a share of the run, leaves out what had been
    accumulated by the last step kept up to then.
    """

    kind: Literal["less"]
    metric: str
    of: str
    than: str | Annotated[list[str], Field(min_length=1)]
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    since: Annotated[float, Field(ge=0, lt=1)] = 0.0

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
        gaps = [Interval.over(pairs[:, 0] - self.factor * other, len(self.others)) for other in pairs.T[1:]]
        of, *than = means(pairs)
        times = "" if self.factor == 1 else f" {number(self.factor)} times"
        told = (
            f"{number(level)} of {other}; difference {gap}"
            for level, other, gap in zip(than, self.others, gaps, strict=True)
        )
        after = f" after {100 * self.since:g} % of the run" if self.since > 0 else ""
        return self._says(
            all_of([gap.below(0) for gap in gaps]),
            f"{self.metric}{after} {number(of)} of {self.of},{times} " + f";{times} ".join(told),
            len(pairs),
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
