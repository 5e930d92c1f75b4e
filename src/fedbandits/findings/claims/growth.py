"""Something grows as a power of something else."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.pairing import along_column, means
from fedbandits.findings.claims.verdict import Verdict
from fedbandits.findings.numbers import number


class Growth(BaseClaim):
    """The exponent e of `metric` ~ `against`^e lies above `above` and below `below`.

    `against` is a sweep column, or ``step`` for the growth within a run. Per seed the slope of a least-squares line
    through the logarithms; then the interval over seeds.
    """

    kind: Literal["growth"]
    metric: str
    of: str
    against: str
    above: float = -np.inf
    below: float = np.inf

    @model_validator(mode="after")
    def _has_bounds(self) -> Growth:
        if self.above == -np.inf and self.below == np.inf:
            raise ValueError("give `above`, `below` or both")
        if self.above >= self.below:
            raise ValueError(f"`above` ({self.above}) must be less than `below` ({self.below})")
        return self

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return [self.of]

    @property
    def columns(self) -> list[str]:
        """See `BaseClaim`."""
        return [*self.at, *([] if self.against == "step" else [self.against])]

    @property
    def about_course(self) -> bool:
        """See `BaseClaim`."""
        return self.against == "step"

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        xs, pairs = along_column(self._rows(frame if self.about_course else final, self.of), self.against, self.metric)
        x = np.asarray(xs, dtype=np.float64)
        usable = (x > 0) & (pairs > 0).all(axis=0)
        if self.against != "step" and not usable.all():
            zeros = ", ".join(f"{self.against}={value}" for value, good in zip(xs, usable, strict=True) if not good)
            return self._says(
                "undecided", f"{self.metric} is not positive at {zeros}, so it has no exponent", len(pairs)
            )
        if usable.sum() < 2:
            return self._says("undecided", "fewer than two positive values, which have no exponent", len(pairs))
        slopes = np.polynomial.polynomial.polyfit(np.log(x[usable]), np.log(pairs[:, usable]).T, 1)[1]
        exponent = self._interval(np.atleast_1d(slopes))
        levels = means(pairs[:, usable])
        first, last = (xs[int(at)] for at in np.flatnonzero(usable)[[0, -1]])
        measured = (
            f"exponent {exponent}; {self.metric} {number(levels[0])} at {self.against} {number(first)}, "
            f"{number(levels[-1])} at {number(last)}"
        )
        needed = [exponent.seeds_to_decide(self.above, self.below)]
        found = exponent.within(self.above, self.below)
        return self._says(found, measured, exponent.seeds, needed, exponent=exponent.plain())
