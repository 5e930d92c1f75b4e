"""One algorithm has less of something than others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.interval import FEWEST_SEEDS, Interval
from fedbandits.findings.claims.pairing import means, paired
from fedbandits.findings.claims.strata import Strata
from fedbandits.findings.claims.verdict import Finding, Verdict, all_of
from fedbandits.findings.numbers import number


class Less(BaseClaim):
    """`metric` of `of` is below `factor` times that of `than`, plus `plus`: interval of the paired differences, against
    zero.

    `than` may be several algorithms: below each of them. `since`, a share of the run, leaves out what had been
    accumulated by the last step kept up to then.

    With `every` it is a claim about each run and not about the mean: it fails where a single seed speaks against it.
    With `share` it is one about that: in more than this share of runs, which few runs that have many times as much of
    it as the others cannot tip, as they can a mean.

    With `strata` more seeds are run of instances in which runs differ much than of others, and count for less each.
    """

    kind: Literal["less"]
    metric: str
    of: str
    than: str | Annotated[list[str], Field(min_length=1)]
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    plus: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    since: Annotated[float, Field(ge=0, lt=1)] = 0.0
    every: bool = False
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    strata: Strata | None = None

    @model_validator(mode="after")
    def _of_one_thing(self) -> Self:
        if self.every and self.share is not None:
            raise ValueError("share: every run is more than any share of them; leave out `share` or `every`")
        if self.strata is not None and (self.every or self.share is not None):
            raise ValueError("strata: are for means; leave out `strata`, or `every` and `share`")
        if self.strata is not None and self.seeds is not None:
            raise ValueError("seeds: strata say how many there are of each kind; leave out `seeds` or `strata`")
        return self

    @property
    def others(self) -> list[str]:
        """The algorithms it is below."""
        return [self.than] if isinstance(self.than, str) else self.than

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return [self.of, *self.others]

    @property
    def about_course(self) -> bool:
        """See `BaseClaim`."""
        return self.since > 0

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        columns = [self._by_seed(final, label, self.metric) for label in self.labels]
        if self.about_course:
            columns = [end - self._before(frame, label) for end, label in zip(columns, self.labels, strict=True)]
        pairs, kinds = self._sorted_out(columns, final)
        apart = [pairs[:, 0] - self.factor * other - self.plus for other in pairs.T[1:]]
        gaps = [self._over(runs, kinds) for runs in apart]
        found = [self._found(gap, runs) for gap, runs in zip(gaps, apart, strict=True)]
        of, *than = means(pairs) if kinds is None else [self._over(level, kinds).mean for level in pairs.T]
        times = "" if self.factor == 1 else f" {number(self.factor)} times"
        plus = "" if self.plus == 0 else f" and {number(self.plus)}"
        told = (
            f"{number(level)} of {other}{plus}; difference {gap}{one.note}"
            for level, other, gap, one in zip(than, self.others, gaps, found, strict=True)
        )
        after = f" after {100 * self.since:g} % of the run" if self.about_course else ""
        shares = {other: one.share.plain() for other, one in zip(self.others, found, strict=True) if one.share}
        return self._says(
            all_of([one.finding for one in found]),
            f"{self.metric}{after} {number(of)} of {self.of},{times} " + f";{times} ".join(told) + self._weighed,
            len(pairs),
            [one.needed for one in found if one.finding == "undecided" and not self.every],
            of=of,
            than=dict(zip(self.others, than, strict=True)),
            difference={other: gap.plain() for other, gap in zip(self.others, gaps, strict=True)},
            **({"share": shares} if shares else {}),
        )

    @property
    def _weighed(self) -> str:
        """What is to be said of strata."""
        if self.strata is None:
            return ""
        return (
            f"; instances of {len(self.strata.shares)} kinds by {self.strata.by}, each with the weight it has among all"
        )

    def _sorted_out(self, columns: Sequence[pd.Series], final: pd.DataFrame) -> tuple[FloatArray, IntArray | None]:
        """(seeds, 1 + others) the `columns` under the seeds that all have; the kind of each, None without strata."""
        if self.strata is None:
            return paired(columns), None
        hardness = self._by_seed(final, self.of, self.strata.by)
        table = pd.concat([*columns, hardness], axis=1, join="inner")
        kinds = self.strata.kinds(table.iloc[:, -1])
        return table.iloc[:, :-1].to_numpy(dtype=np.float64)[kinds >= 0], kinds[kinds >= 0]

    def _over(self, runs: FloatArray, kinds: IntArray | None) -> Interval:
        """The interval of what differs between two, or of anything else that every run has."""
        if self.strata is None or kinds is None:
            return self._interval(runs, len(self.others))
        return Interval.stratified(runs, kinds, self.strata.weights, len(self.others) * self.looks)

    def _found(self, gap: Interval, runs: FloatArray) -> _Found:
        """Of one of the others, from the differences `runs` (seeds,) and their `gap`."""
        if self.every:
            return _Found(_in_each(runs), note=f", {number(runs.max())} in the worst run")
        if self.share is None:
            return _Found(gap.below(0), gap.seeds_to_decide(0))
        told = not np.isnan(runs).any()
        share = self._share(runs < 0, len(self.others)) if told else Interval(math.nan, -math.inf, math.inf, len(runs))
        needed = share.seeds_to_decide(self.share)
        return _Found(share.above(self.share), needed, f", below in {share} of the runs", share)

    def _before(self, frame: pd.DataFrame, label: str) -> pd.Series:
        """What had been accumulated by the last step kept up to `since`, by seed; nothing where none is kept."""
        rows = self._rows(frame, label)
        ends = rows.groupby("seed")["step"].transform("max")
        early = rows[rows["step"] <= self.since * ends].sort_values("step").drop_duplicates("seed", keep="last")
        return self._by_seed(early, label, self.metric).reindex(rows["seed"].unique(), fill_value=0.0)


class _Found(NamedTuple):
    """What comes of one comparison."""

    finding: Finding
    needed: int | None = None
    """Seeds that would decide it."""
    note: str = ""
    share: Interval | None = None


def _in_each(gaps: FloatArray) -> Finding:
    """Whether all of `gaps` (seeds,) are below zero; nothing is decided by too few of them."""
    if len(gaps) < FEWEST_SEEDS or np.isnan(gaps).any():
        return "undecided"
    return "holds" if (gaps < 0).all() else "fails"
