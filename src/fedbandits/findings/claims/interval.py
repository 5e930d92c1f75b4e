"""Means over seeds, and how sure one can be of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, stdtrit

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.findings.claims.verdict import Finding
from fedbandits.findings.numbers import number

CONFIDENCE = 0.95
FEWEST_SEEDS = 3
"""With fewer there is no interval, and nothing is decided."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean over seeds, and where it lies with the stated confidence: anywhere if there are too few seeds to tell."""

    mean: float
    low: float
    high: float
    seeds: int
    spread: float = math.nan
    """The standard deviation between seeds, and"""
    tail: float = math.nan
    """the chance that is left on either side."""

    @classmethod
    def over(cls, values: FloatArray, comparisons: int = 1, sides: int = 2) -> Interval:
        """t-interval of `values` (seeds,); one-sided bounds for `sides=1`.

        Unbounded if there are too few seeds, or if some of the values are no numbers.
        """
        count = len(values)
        mean = float(np.mean(values)) if count else math.nan
        if count < FEWEST_SEEDS or not np.isfinite(values).all():
            return cls(mean, -math.inf, math.inf, count)
        tail = (1 - CONFIDENCE) / comparisons / sides
        spread = float(np.std(values, ddof=1))
        reach = _reach(count, spread, tail)
        return cls(mean, mean - reach, mean + reach, count, spread, tail)

    @classmethod
    def stratified(cls, values: FloatArray, kinds: IntArray, weights: FloatArray, comparisons: int = 1) -> Interval:
        """Of the mean over all instances, if `values` (seeds,) are of `kinds` (seeds,) that are `weights` (H,) of all.

        t-interval with Satterthwaite's (1946) degrees of freedom. Unbounded if a kind has too few seeds. `spread` is
        that of seeds which, without kinds, would tell as much.
        """
        parts = [values[kinds == kind] for kind in range(len(weights))]
        counts = np.array([len(part) for part in parts])
        mean = math.fsum(
            w * float(np.mean(part)) if len(part) else math.nan for w, part in zip(weights, parts, strict=True)
        )
        count = int(counts.sum())
        if counts.min() < FEWEST_SEEDS or not np.isfinite(values).all():
            return cls(mean, -math.inf, math.inf, count)
        tail = (1 - CONFIDENCE) / comparisons / 2
        shares = weights**2 * np.array([np.var(part, ddof=1) for part in parts]) / counts
        variance = float(shares.sum())
        freedom = variance**2 / float((shares**2 / (counts - 1)).sum()) if variance > 0 else count - len(parts)
        reach = float(stdtrit(freedom, 1 - tail)) * math.sqrt(variance)
        return cls(mean, mean - reach, mean + reach, count, math.sqrt(variance * count), tail)

    @classmethod
    def share(cls, hits: BoolArray, comparisons: int = 1) -> Interval:
        """The share of seeds in which something is so, of `hits` (seeds,): its interval by Clopper and Pearson (1934),
        which holds for any number of seeds.
        """
        count, times = len(hits), int(hits.sum())
        whole = cls.over(hits.astype(np.float64), comparisons)
        if not whole.bounded:
            return whole
        low = float(betaincinv(times, count - times + 1, whole.tail)) if times else 0.0
        high = float(betaincinv(times + 1, count - times, 1 - whole.tail)) if times < count else 1.0
        # that of one more seed either way: where all agree, others need not
        likely = (times + 1) / (count + 2)
        return replace(whole, low=low, high=high, spread=math.sqrt(likely * (1 - likely)))

    @property
    def bounded(self) -> bool:
        """Whether there is an interval at all."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def below(self, bound: float) -> Finding:
        """Whether the mean is below `bound`. To be equal to it beyond doubt is not to be below."""
        return "holds" if self.high < bound else "fails" if self.low >= bound else "undecided"

    def above(self, bound: float) -> Finding:
        """Whether the mean is above `bound`."""
        return "holds" if self.low > bound else "fails" if self.high <= bound else "undecided"

    def within(self, low: float, high: float) -> Finding:
        """Whether the mean lies in [low, high]."""
        if self.bounded and low <= self.low and self.high <= high:
            return "holds"
        return "fails" if self.high < low or self.low > high else "undecided"

    def seeds_to_decide(self, *bounds: float) -> int | None:
        """How many seeds it takes until the interval contains none of `bounds`, if they have this mean and spread: an
        estimate, as these are. None where nothing can be said, as if a bound is the mean itself.
        """
        gap = min((abs(self.mean - bound) for bound in bounds if math.isfinite(bound)), default=0.0)
        if not self.bounded or not math.isfinite(self.spread) or gap <= 1e-9 * self.spread:
            return None
        low = high = FEWEST_SEEDS
        while _reach(high, self.spread, self.tail) >= gap:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _reach(middle, self.spread, self.tail) >= gap else (low, middle)
        return high

    def exp(self) -> Interval:
        """The interval of a ratio, from that of its logarithm."""
        low, high = (math.exp(self.low), math.exp(self.high)) if self.bounded else (self.low, self.high)
        return Interval(math.exp(self.mean), low, high, self.seeds)

    def __str__(self) -> str:
        if self.bounded:
            return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"
        return f"{number(self.mean)} ({'too few seeds for' if self.seeds < FEWEST_SEEDS else 'without'} an interval)"

    def plain(self) -> dict[str, float | None]:
        """For a program: what is no number is None."""
        sides = {"mean": self.mean, "low": self.low, "high": self.high}
        return {name: side if math.isfinite(side) else None for name, side in sides.items()} | {"seeds": self.seeds}


def _reach(seeds: int, spread: float, tail: float) -> float:
    """How far the interval of a mean over so many seeds extends to either side."""
    return float(stdtrit(seeds - 1, 1 - tail) * spread / math.sqrt(seeds))
