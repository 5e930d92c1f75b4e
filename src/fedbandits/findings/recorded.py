"""What is kept of results when the results are gone: verdicts with their figures, and means. A few kilobytes of JSON.

    {"name", "title", "source", "code", "seeds", "sweep",
     "claims": [{"text", "verdict", "measured", "seeds", "looks"}, ...],
     "cases": [{"algorithm", "point", "clients", ..., "figures": {metric: [mean, standard error]}}, ...]}

A case that claims have asked more of than of others has `seeds` of its own; its figures are of those of all.
`code` is a digest of the code that the runs come from. Numbers have `_DIGITS` significant digits. Standard errors are
null where there is one seed. Regret may have a heavy tail: its median is kept as a third number, but not in
records of an earlier time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.description import plain
from fedbandits.contract.errors import ConfigError
from fedbandits.findings.claims import Verdict
from fedbandits.findings.metrics import DIVISORS, METRICS, parts_of
from fedbandits.findings.records import Record, read_records
from fedbandits.findings.results import ENDS_ALONE, Results, told_range

_DIGITS = 6
_HEAVY = ("regret", "later_regret")
"""Metrics of which the median is kept as well."""
_SAID, _JUDGED = ("text", "verdict", "measured"), ("seeds", "looks")
"""What is kept of a verdict, and of its details."""
_TIME = "seconds"
"""The metric that is the machine's and not the experiment's."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One experiment on record."""

    name: str
    title: str
    source: str
    code: str
    seeds: int
    sweep: Sequence[str]
    claims: Sequence[Verdict]
    cases: Sequence[Mapping[str, Any]]

    @property
    def key(self) -> list[str]:
        """The columns that say what was run."""
        return ["algorithm", *self.sweep]

    @property
    def algorithms(self) -> list[str]:
        """The labels, in the order given."""
        return list(dict.fromkeys(case["algorithm"] for case in self.cases))

    @property
    def told_seeds(self) -> str:
        """How many seeds the cases have, in words."""
        return told_range(self.seeds, max([self.seeds, *map(self.seeds_of, self.cases)]))

    def seeds_of(self, case: Mapping[str, Any]) -> int:
        """How many seeds a case has."""
        return int(case.get("seeds", self.seeds))

    def figures(self, metric: str) -> pd.DataFrame:
        """A row for each algorithm and point of the sweep that has `metric`: `key`, and its `mean`, `error` and
        `median` there, the last of them NaN where it was not kept. What is divided by something that differs between
        seeds is not on record.
        """
        base, suffix = parts_of(metric)
        rows = []
        cases = [case for case in self.cases if base in case["figures"]]
        if not cases:
            raise ConfigError(f"{self.name} has no {base} on record")
        cases = [case for case in cases if not suffix or case[DIVISORS[suffix]] is not None]
        if not cases:
            raise ConfigError(f"{self.name} has no {metric} on record: {DIVISORS[suffix]} differs between seeds")
        for case in cases:
            mean, error, *more = case["figures"][base]
            by = case[DIVISORS[suffix]] if suffix else 1
            where = {name: case["point"].get(name, np.nan) for name in self.sweep}
            rows.append(
                {
                    "algorithm": case["algorithm"],
                    **where,
                    "mean": mean / by,
                    "error": math.nan if error is None else error / by,
                    "median": more[0] / by if more else math.nan,
                }
            )
        return pd.DataFrame(rows)

    def best(self, metric: str) -> pd.DataFrame:
        """Of all settings of each algorithm the one with the lowest mean of `metric`, the first of equals: a row for
        each algorithm that has several, and for each value of the sweep's columns that concern every algorithm.

        Columns: algorithm, those, `setting`: the values of the algorithm's own, `tried`: how many settings there were,
        and `mean`, `error` and `median`.
        """
        common = [name for name in self.sweep if all(name in case["point"] for case in self.cases)]
        told = ["algorithm", *common]
        tried: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for figure in self.figures(metric).to_dict("records"):
            tried.setdefault(tuple(figure[name] for name in told), []).append(
                {str(name): value for name, value in figure.items()}
            )
        rows = []
        for same in tried.values():
            if len(same) == 1:
                continue
            lowest = min(same, key=lambda figure: float(figure["mean"]))
            own = {name: lowest[name] for name in self.sweep if name not in common and lowest[name] == lowest[name]}
            rows.append({**lowest, "setting": own, "tried": len(same)})
        return pd.DataFrame(rows, columns=[*told, "setting", "tried", "mean", "error", "median"])

    def require_looks(self, before: Recorded) -> None:
        """Refuse a claim that was undecided `before`, under fewer seeds, and does not say that this is another look."""
        earlier = {claim.text: claim for claim in before.claims}
        for claim in self.claims:
            was = earlier.get(claim.text)
            if was is None or was.verdict != "undecided" or claim.details["seeds"] <= was.details["seeds"]:
                continue
            if claim.details["looks"] <= was.details["looks"]:
                raise ConfigError(
                    f"{self.name}: {claim.text!r} was undecided under {was.details['seeds']:,} seeds and is looked at "
                    f"again under {claim.details['seeds']:,}; say so in its file, by looks = {was.details['looks'] + 1}"
                )

    @classmethod
    def of(cls, name: str, directory: str | os.PathLike[str], records: Sequence[Record] | None = None) -> Recorded:
        """What there is to keep of the results in `directory`, all of whose runs must be there: `records`, where they
        have been read before.
        """
        records = read_records(directory) if records is None else records
        results = Results.load(directory, records)
        if results.missing:
            raise ConfigError(f"{results.missing} runs of {name} are missing; `fedbandits run {name}`")
        for claim in results.claims:
            if ENDS_ALONE in claim.details:
                raise ConfigError(
                    f"{name}: {claim.text!r} is about the course of runs, of which the end alone is known; "
                    "run those again without --known"
                )
        codes = sorted({record.code for record in records})
        return cls(
            name=name,
            title=results.title,
            source=results.source,
            code=hashlib.sha256("\n".join(codes).encode()).hexdigest()[:16],
            seeds=len(results.settings["seeds"]),
            sweep=list(results.sweep),
            claims=[replace(claim, details=_judged(claim)) for claim in results.claims],
            cases=_cases(results),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Recorded:
        """The record in a file."""
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            claims = [
                Verdict(**{name: claim[name] for name in _SAID}, details={name: claim[name] for name in _JUDGED})
                for claim in held.pop("claims")
            ]
            return cls(**held, claims=claims)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is no record of an experiment: {error}") from None

    def text(self) -> str:
        """The record as a file has it: a line for every claim and case, so that differences can be read."""
        head = {name: getattr(self, name) for name in ("name", "title", "source", "code", "seeds", "sweep")}
        claims = [{name: getattr(claim, name) for name in _SAID} | dict(claim.details) for claim in self.claims]
        lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
        for name, rows in (("claims", claims), ("cases", self.cases)):
            inner = ",\n".join(f"  {json.dumps(row, ensure_ascii=False, allow_nan=False)}" for row in rows)
            lines.append(f" {json.dumps(name)}: [\n{inner}\n ]" if rows else f" {json.dumps(name)}: []")
        return "{\n" + ",\n".join(lines) + "\n}\n"


def _judged(claim: Verdict) -> dict[str, int]:
    """Under how many seeds a claim was judged, and at which look."""
    return {"seeds": claim.details.get("seeds", 0), "looks": claim.details.get("looks", 1)}


def _cases(results: Results) -> list[dict[str, Any]]:
    final = results.final()
    measured = [name for name in METRICS if name in final and name not in (*DIVISORS.values(), _TIME)]
    cases = []
    where: Any
    for where, runs in final.groupby(results.key, sort=False, dropna=False):
        label, *at = where
        rows = results.shared(runs)
        # what a column does not concern is no number there
        point = {name: value for name, value in zip(results.sweep, at, strict=True) if value == value}
        values = {name: rows[name].to_numpy(dtype=np.float64) for name in measured}
        # a budget may be infinite, and a normalised reward be divided by nothing
        figures = {name: _figure(of, median=name in _HEAVY) for name, of in values.items() if np.isfinite(of).all()}
        cases.append(
            {
                "algorithm": label,
                "point": plain(point),
                **({"seeds": len(runs)} if len(runs) > len(rows) else {}),
                **{column: _only(rows[column]) for column in DIVISORS.values() if column in rows},
                "figures": figures,
            }
        )
    return cases


def _figure(values: FloatArray, *, median: bool) -> list[float | None]:
    """Mean and standard error, and the median where it is asked for."""
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else None
    middle = [_short(float(np.median(values)))] if median else []
    return [_short(values.mean()), None if error is None else _short(error), *middle]


def _only(column: pd.Series) -> float | None:
    """The value that all rows share."""
    return _short(float(column.iloc[0])) if column.notna().all() and column.nunique() == 1 else None


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
