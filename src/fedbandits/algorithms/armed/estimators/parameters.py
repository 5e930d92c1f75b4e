"""Parameters of estimators, and what they take from the problem where they are not given."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Contamination, Moment, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem

MeanName = Literal["empirical", "trimmed", "median-of-means", "catoni", "shortest-interval"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class Estimation:
    """How means are estimated from samples, and how wide their confidence intervals are.

    - `mean`: the estimator; see the modules of this package for formulas, widths and guarantees.
    - `scale`: multiplies every width. The widths of robust means are very conservative.
    - `exploration`: c0 of the empirical mean's width sqrt(c0 log t / n). 2 is right for rewards in [0, 1];
      sigma-sub-Gaussian theory asks for 8 sigma^2.
    - `order`, `raw`, `central`: tails of rewards, E|X|^order <= raw and E|X - EX|^order <= central, 1 < order <= 2.
      Left out, they follow from the fact `Moment`; where it is not told, from sub-Gaussian noise: order 2, central =
      sigma^2, raw = the largest square in `Range`, or sigma^2 + S^2, since no mean exceeds the norm S of all of them.
      The trimmed mean needs `raw`, all other robust means `central`.
    - `contamination`: the share of samples that the shortest interval takes for anything at all; left out, that of the
      problem, which is what network and environment really do.
    - `threshold`: of the trimmed mean, as defined, or as printed in its online version; see `trimmed`.
    """

    mean: MeanName = "empirical"
    scale: Positive = 1.0
    exploration: Positive = 2.0
    order: Annotated[float, Field(gt=1, le=2)] | None = None
    raw: Positive | None = None
    central: Positive | None = None
    contamination: Annotated[float, Field(ge=0, lt=0.5)] | None = None
    threshold: Literal["definition", "printed"] = "definition"

    def tail_order(self, problem: Problem) -> float:
        """The order of the moments that are bounded."""
        return self.order or _moment(problem).order

    def raw_moment(self, problem: Problem) -> float:
        """The bound on E|X|^order."""
        return self.raw or self._lowered("raw", problem, _moment(problem).raw)

    def central_moment(self, problem: Problem) -> float:
        """The bound on E|X - EX|^order; positive."""
        bound = self.central or self._lowered("central", problem, _moment(problem).central)
        if bound == 0:
            raise ConfigError(
                f"central: must be above 0 for mean = {self.mean!r} (got 0 from the problem's noise); set central"
            )
        return bound

    def variance(self, problem: Problem) -> float:
        """The bound on the variance, for estimators that need one."""
        order = self.tail_order(problem)
        if order != 2:
            raise ConfigError(
                f"order: mean = {self.mean!r} rests on a finite variance (got order {order}); set order = 2 and "
                "central to a bound on the variance, or use mean = 'trimmed' or 'median-of-means'"
            )
        return self.central_moment(problem)

    def contaminated(self, problem: Problem) -> float:
        """The share of samples that may be anything."""
        known = problem.get(Contamination, Contamination()).share
        return known if self.contamination is None else self.contamination

    def _lowered(self, name: str, problem: Problem, bound: float) -> float:
        """The problem's `bound` on a moment, for moments of an order that may be lower: E|X|^q <= (E|X|^p)^(q/p)."""
        known, order = _moment(problem).order, self.tail_order(problem)
        if order > known:
            raise ConfigError(
                f"{name}: must be given for order = {order}, since the problem only bounds moments of order {known}; "
                f"set {name}, or an order of at most {known}"
            )
        return float(bound ** (order / known))


def _moment(problem: Problem) -> Moment:
    """What `problem` says about tails; see `Estimation`."""
    told, known = problem.get(Moment), problem.get(Range)
    if told is not None:
        return told
    central = problem.get(Noise, Noise()).sigma ** 2
    raw = central + problem.get(Norms, Norms()).parameter ** 2 if known is None else known.largest**2
    return Moment(order=2.0, raw=raw, central=central)
