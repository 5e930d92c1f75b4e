"""At equal cost, some algorithms are no worse than others."""

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


class Frontier(BaseClaim):
    """At equal `x` (communication, say), `y` of the algorithms `of` is at most `factor` times that of each of `than`.

    The points (x, y) of `of` are joined, per seed, by straight lines in logarithmic axes and read off at the x of each
    algorithm in `than`, only between the smallest and largest positive x of `of`. Then the interval over seeds of the
    logarithm of the ratio, each with confidence 1 - 0.05/k for the k algorithms in `than` that lie in range in at least
    three seeds.
    """

    kind: Literal["frontier"]
    x: str
    y: str
    of: Annotated[list[str], Field(min_length=2)]
    than: Annotated[list[str], Field(min_length=1)]
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return [*self.of, *self.than]

    @property
    def metrics(self) -> list[str]:
        """See `BaseClaim`."""
        return [self.x, self.y]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        x = paired(self._by_seed(final, label, self.x) for label in self.labels)
        y = paired(self._by_seed(final, label, self.y) for label in self.labels)
        split = len(self.of)
        logs = {
            label: log_ratios(x[:, :split], y[:, :split], x[:, at], y[:, at])
            for at, label in enumerate(self.than, start=split)
        }
        decided = [label for label, values in logs.items() if len(values) >= FEWEST_SEEDS]
        found: list[Finding] = []
        told, ratios = [], {}
        for at, label in enumerate(self.than, start=split):
            place = f"at the {self.x} of {label} ({number(means(x)[at])})"
            in_range = f"in range in {len(logs[label])} of {len(x)} seeds"
            if len(logs[label]) == 0:
                told.append(f"{place} there is nothing to compare with: {in_range}")
                continue
            ratio = self._interval(logs[label], comparisons=max(1, len(decided)))
            told.append(f"{place} {self.y} is {ratio.exp()} times as large, {in_range}")
            ratios[label] = ratio.exp().plain()
            if label in decided:
                # "no worse" includes equality, unlike "below"
                found.append(ratio.within(-np.inf, float(np.log(self.factor))))
        return self._says(all_of(found) if found else "undecided", "; ".join(told), len(x), ratios=ratios)


def log_ratios(x: FloatArray, y: FloatArray, at: FloatArray, other: FloatArray) -> FloatArray:
    """log of (frontier at `at`) / `other`, for those seeds in which `at` lies within the frontier's range.

    `x`, `y` (seeds, points) are the frontier's points, `at` and `other` (seeds,).
    """
    found = []
    for xs, ys, where, value in zip(x, y, at, other, strict=True):
        real = (xs > 0) & (ys > 0)
        if real.sum() < 2 or value <= 0 or not xs[real].min() <= where <= xs[real].max():
            continue
        order = np.argsort(xs[real])
        read = np.interp(np.log(where), np.log(xs[real][order]), np.log(ys[real][order]))
        found.append(read - np.log(value))
    return np.asarray(found, dtype=np.float64)
