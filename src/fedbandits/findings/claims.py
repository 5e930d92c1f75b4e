"""Claims about results, and whether measurements bear them out.

Every verdict rests on a Student-t interval over seeds at 95 % confidence. Algorithms meet the same arms and noise under
one seed, so comparisons use the differences within each seed. A claim *holds* if the whole interval agrees with it,
*fails* if the whole interval speaks against it, and is *undecided* otherwise, always so with fewer than three seeds.
Where a claim makes k comparisons, each has confidence 1 - 0.05/k (Bonferroni), so that the verdict as a whole keeps
95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from scipy.special import stdtrit

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.ledger import DIRECTIONS, UNITS

Finding = Literal["holds", "fails", "undecided"]

METRICS = (
    "regret",
    "reward",
    "normalised_reward",
    "coverage",
    "epsilon",
    "upper_bound",
    "lower_bound",
    "decisions",
    "syncs",
    "messages",
    "scalars",
    "bytes",
    *(f"{way}_{unit}" for way in DIRECTIONS for unit in UNITS),
    "seconds",
)
"""What is measured at the end of a run, and the bounds that theory sets to its regret; each also divided by another
column, as METRIC_per_client, _per_decision, _per_upper_bound or _per_lower_bound."""

_DIVISORS = {
    "_per_client": "clients",
    "_per_decision": "decisions",
    "_per_upper_bound": "upper_bound",
    "_per_lower_bound": "lower_bound",
}
_CONFIDENCE = 0.95
_FEWEST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, whether it holds, and the figures that say so."""

    text: str
    verdict: Finding
    measured: str
    """The figures in words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The figures as plain values."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean over seeds, and where it lies with the stated confidence."""

    mean: float
    low: float
    high: float
    seeds: int

    @classmethod
    def over(cls, values: FloatArray, comparisons: int = 1, sides: int = 2) -> Interval:
        """t-interval of `values` (seeds,); one-sided bounds for `sides=1`. Unbounded if there are too few seeds."""
        count = len(values)
        mean = float(np.mean(values)) if count else float("nan")
        if count < _FEWEST_SEEDS:
            return cls(mean, -np.inf, np.inf, count)
        tail = (1 - _CONFIDENCE) / comparisons / sides
        reach = float(stdtrit(count - 1, 1 - tail) * np.std(values, ddof=1) / np.sqrt(count))
        return cls(mean, mean - reach, mean + reach, count)

    def below(self, bound: float) -> Finding:
        """Whether the mean is below `bound`. To be equal to it beyond doubt is not to be below."""
        return "holds" if self.high < bound else "fails" if self.low >= bound else "undecided"

    def within(self, low: float, high: float) -> Finding:
        """Whether the mean lies in [low, high]."""
        if low <= self.low and self.high <= high:
            return "holds"
        return "fails" if self.high < low or self.low > high else "undecided"

    def __str__(self) -> str:
        return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"

    def plain(self) -> dict[str, float]:
        """For a program; unbounded sides are None."""
        low, high = (None if np.isinf(side) else side for side in (self.low, self.high))
        return {"mean": self.mean, "low": low, "high": high, "seeds": self.seeds}  # type: ignore[dict-item]


class _Claim(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Annotated[str, Field(min_length=1)]
    at: dict[str, Any] = {}
    """The sweep point spoken of: column name to value."""

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

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """The verdict by the runs in `frame`, whose last rows are `final`."""
        raise NotImplementedError

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

    def _says(self, verdict: Finding, measured: str, seeds: int, **details: Any) -> Verdict:
        few = f"; {seeds} seeds are too few to decide" if seeds < _FEWEST_SEEDS else f"; {seeds} seeds"
        return Verdict(
            self.text, verdict, measured + few, {"kind": getattr(self, "kind", ""), "seeds": seeds, **details}
        )


class Less(_Claim):
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
        """See `_Claim`."""
        return [self.of, *self.others]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `_Claim`."""
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


class Monotone(_Claim):
    """`metric` rises or falls from each member of `along` to the next: a list of algorithms, or a sweep column
    (then `of` names the algorithm). One-sided bounds of the paired differences, each with confidence 1 - 0.05/k
    for k steps. Holds if every step does, fails if any step fails.
    """

    kind: Literal["monotone"]
    metric: str
    direction: Literal["rises", "falls"]
    along: Annotated[list[str], Field(min_length=2)] | str
    of: str | None = None

    @model_validator(mode="after")
    def _names_the_algorithm(self) -> Monotone:
        if isinstance(self.along, str) != (self.of is not None):
            raise ValueError("`of` names the algorithm when `along` is a sweep column, and is left out otherwise")
        return self

    @property
    def labels(self) -> list[str]:
        """See `_Claim`."""
        return self.along if isinstance(self.along, list) else [str(self.of)]

    @property
    def columns(self) -> list[str]:
        """See `_Claim`."""
        return [*self.at, self.along] if isinstance(self.along, str) else list(self.at)

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `_Claim`."""
        if isinstance(self.along, list):
            names = self.along
            pairs = paired(self._by_seed(final, label, self.metric) for label in self.along)
        else:
            values, pairs = along_column(self._rows(final, str(self.of)), self.along, self.metric)
            names = [f"{self.along}={value}" for value in values]
        sign = 1 if self.direction == "falls" else -1
        steps = [Interval.over(step, comparisons=len(names) - 1, sides=1) for step in np.diff(sign * pairs, axis=1).T]
        found = [step.below(0) for step in steps]
        levels = means(pairs)
        chain = ", ".join(f"{number(level)} ({name})" for name, level in zip(names, levels, strict=True))
        doubts = [
            f"from {names[at]} to {names[at + 1]} it {'does not' if finding == 'fails' else 'may not'}"
            for at, finding in enumerate(found)
            if finding != "holds"
        ]
        return self._says(
            all_of(found),
            "; ".join([f"{self.metric} {chain}", *doubts]),
            len(pairs),
            levels=dict(zip(names, levels, strict=True)),
            steps=found,
        )


class Growth(_Claim):
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
        """See `_Claim`."""
        return [self.of]

    @property
    def columns(self) -> list[str]:
        """See `_Claim`."""
        return [*self.at, *([] if self.against == "step" else [self.against])]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `_Claim`."""
        xs, pairs = along_column(
            self._rows(frame if self.against == "step" else final, self.of), self.against, self.metric
        )
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
        exponent = Interval.over(np.atleast_1d(slopes))
        levels = means(pairs[:, usable])
        first, last = (xs[int(at)] for at in np.flatnonzero(usable)[[0, -1]])
        measured = (
            f"exponent {exponent}; {self.metric} {number(levels[0])} at {self.against} {number(first)}, "
            f"{number(levels[-1])} at {number(last)}"
        )
        return self._says(exponent.within(self.above, self.below), measured, exponent.seeds, exponent=exponent.plain())


class Frontier(_Claim):
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
        """See `_Claim`."""
        return [*self.of, *self.than]

    @property
    def metrics(self) -> list[str]:
        """See `_Claim`."""
        return [self.x, self.y]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `_Claim`."""
        x = paired(self._by_seed(final, label, self.x) for label in self.labels)
        y = paired(self._by_seed(final, label, self.y) for label in self.labels)
        split = len(self.of)
        logs = {
            label: log_ratios(x[:, :split], y[:, :split], x[:, at], y[:, at])
            for at, label in enumerate(self.than, start=split)
        }
        inside = {label: values for label, values in logs.items() if len(values) >= _FEWEST_SEEDS}
        found: list[Finding] = []
        told, ratios = [], {}
        for at, label in enumerate(self.than, start=split):
            place = f"at the {self.x} of {label} ({number(float(np.mean(x[:, at])) if len(x) else np.nan)})"
            if label not in inside:
                told.append(
                    f"{place} there is nothing to compare with: in range in {len(logs[label])} of {len(x)} seeds"
                )
                continue
            ratio = Interval.over(inside[label], comparisons=len(inside))
            # "no worse" includes equality, unlike "below"
            found.append(ratio.within(-np.inf, float(np.log(self.factor))))
            mean, low, high = np.exp([ratio.mean, ratio.low, ratio.high])
            told.append(f"{place} {self.y} is {mean:.3f} [{low:.3f}, {high:.3f}] times as large")
            ratios[label] = {"mean": float(mean), "low": float(low), "high": float(high), "seeds": ratio.seeds}
        return self._says(all_of(found) if found else "undecided", "; ".join(told), len(x), ratios=ratios)


class Between(_Claim):
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
        """See `_Claim`."""
        return [self.of]

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `_Claim`."""
        rows = self._rows(final, self.of)
        open_axes = [name for name in rows.columns[1 : rows.columns.get_loc("seed")] if rows[name].nunique() > 1]
        points = list(rows.groupby(open_axes, sort=False)) if open_axes else [((), rows)]
        means = {
            ", ".join(f"{axis}={value}" for axis, value in zip(open_axes, point, strict=True)): Interval.over(
                measure(group, self.metric).to_numpy(), comparisons=len(points)
            )
            for point, group in points
        }
        told = "; ".join(f"{mean} at {point}" if point else str(mean) for point, mean in means.items())
        return self._says(
            all_of([mean.within(self.low, self.high) for mean in means.values()]),
            f"{self.metric} of {self.of} {told}",
            min(mean.seeds for mean in means.values()),
            **({"means": {point: mean.plain() for point, mean in means.items()}} if open_axes else {}),
            **({} if open_axes else {"mean": means[""].plain()}),
        )


Claim = Annotated[Less | Monotone | Growth | Frontier | Between, Field(discriminator="kind")]


def parse_claims(claims: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Claims from plain values."""
    return TypeAdapter(list[Claim]).validate_python(claims)


def known_metric(name: str) -> bool:
    """Whether `measure` knows the metric."""
    return name in METRICS or any(
        name.endswith(suffix) and name.removesuffix(suffix) in METRICS for suffix in _DIVISORS
    )


def measure(rows: pd.DataFrame, metric: str) -> pd.Series:
    """The metric in each row."""
    for suffix, divisor in _DIVISORS.items():
        if metric.endswith(suffix):
            return rows[metric.removesuffix(suffix)] / rows[divisor]
    return rows[metric]


def paired(columns: Iterable[pd.Series]) -> FloatArray:
    """(seeds, columns) the values under those seeds that all columns have."""
    return pd.concat(list(columns), axis=1, join="inner").to_numpy(dtype=np.float64)


def along_column(rows: pd.DataFrame, column: str, metric: str) -> tuple[list[Any], FloatArray]:
    """Values of `column` and the metric (seeds, values) under those seeds that have all of them.

    Numbers come in ascending order; names, which have none, in the order in which they were run.
    """
    if rows.duplicated(["seed", column]).any():
        raise ConfigError(f"claim along {column!r}: several sweep points share one value of it; narrow them with `at`")
    table = rows.assign(measured=measure(rows, metric)).pivot(index="seed", columns=column, values="measured")
    if not pd.api.types.is_numeric_dtype(rows[column]):
        table = table[list(pd.unique(rows[column]))]
    table = table.dropna(axis=0)
    return list(table.columns), table.to_numpy(dtype=np.float64)


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


def all_of(found: Sequence[Finding]) -> Finding:
    """Whether all hold: fails if one fails, undecided if one is."""
    return "fails" if "fails" in found else "undecided" if "undecided" in found else "holds"


def means(pairs: FloatArray) -> list[float]:
    """Mean over seeds of each column; NaN where no seed has all of them."""
    return [float(np.mean(column)) if len(column) else float("nan") for column in pairs.T]


def number(value: float) -> str:
    """A figure to be read: from a hundred on whole numbers, smaller ones with three significant digits."""
    return f"{value:,.0f}" if np.isfinite(value) and abs(value) >= 100 else f"{value:.3g}"
