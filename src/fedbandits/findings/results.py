"""What an experiment or comparison leaves behind: a tidy table, what was run, and which claims it bears out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from fedbandits.contract.portrait import Portrait
from fedbandits.findings.claims import Claim, Verdict, parse_claims
from fedbandits.findings.metrics import METRICS
from fedbandits.findings.published import Beside, Published
from fedbandits.findings.records import Record, read_records, read_settings
from fedbandits.findings.run import Run

__all__ = ["Results", "Verdict"]


ENDS_ALONE = "ends_alone"
"""Among the details of a verdict that was not possible: how many runs have lost their course."""


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Everything a table, a report or a program needs."""

    title: str
    source: str
    description: str
    settings: Mapping[str, Any]
    """What was run: environment, algorithms by label, run and sweep, as plain values; `seeds` among them."""
    sweep: Sequence[str]
    """The columns of `frame` that say where in a sweep a row belongs; empty without a sweep."""
    frame: pd.DataFrame
    """One row per (algorithm, sweep point, seed, step): algorithm, sweep columns, seed, clients, those of
    `Trace.frame`, seconds. Cumulative, as in a trace; `clients` and `seconds` belong to the whole run. Where claims
    chose seeds for their instances, these are among them, and no fair sample: see `compared`."""
    claims: Sequence[Verdict] = field(default_factory=list)
    missing: int = 0
    """How many runs are still to be done, in a directory whose experiment was interrupted."""
    published: Sequence[Beside] = field(default_factory=list)
    """Figures that a publication printed, beside ours."""
    portraits: Sequence[Portrait] = field(default_factory=list)
    """What runs left to look at, in the order of `frame`: the first of a case is that of its first seed."""

    @property
    def key(self) -> list[str]:
        """The columns that say what was run, apart from the seed."""
        return ["algorithm", *self.sweep]

    @property
    def algorithms(self) -> list[str]:
        """The labels, in the order given."""
        return list(self.frame["algorithm"].unique())

    @property
    def curves(self) -> pd.DataFrame:
        """`frame` under the seeds that everything is run under, without the runs of which the end alone is known
        (`findings.ends`), unless that is all there is.
        """
        frame = self.shared(self.frame)
        sizes = frame.groupby([*self.key, "seed"], sort=False, dropna=False)["step"].transform("size")
        return frame[sizes > 1] if (sizes > 1).any() else frame

    @property
    def seeds(self) -> str:
        """How many there are for each case, in words: 30, or 30 to 180 where claims ask for more of some."""
        counts = self.final().groupby(self.key, sort=False, dropna=False).size()
        return told_range(counts.min(), counts.max()) if len(counts) else "0"

    def final(self) -> pd.DataFrame:
        """The last step of each run: one row per (algorithm, sweep point, seed)."""
        return final_rows(self.frame, self.sweep)

    def compared(self) -> pd.DataFrame:
        """`final` under the seeds that everything is run under: what tables are of, so that all in them have met the
        same. Seeds that some have beyond these are for the claims that asked for them.
        """
        return self.shared(self.final())

    def shared(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those of `rows` that are of seeds under which everything is run."""
        return rows[rows["seed"].isin(self.settings["seeds"])]

    def summary(self) -> pd.DataFrame:
        """One row per (algorithm, sweep point): `runs`, then mean `X` and standard error `X_se` of each quantity X, the
        last of which is `decisions_per_second` of one core. With one seed the standard error is NaN.
        """
        final = self.compared()
        final = final.assign(decisions_per_second=final["decisions"] / final["seconds"].where(final["seconds"] > 0))
        grouped = final.groupby(self.key, sort=False, dropna=False)
        columns: dict[str, Any] = {"runs": grouped.size()}
        for name in (*(metric.name for metric in METRICS.values() if metric.summarised), "decisions_per_second"):
            columns[name] = grouped[name].mean()
            columns[f"{name}_se"] = grouped[name].sem()
        return pd.DataFrame(columns).reset_index()

    @classmethod
    def load(cls, directory: str | os.PathLike[str], records: Sequence[Record] | None = None) -> Results:
        """What `directory` holds, finished or not; claims are judged by the runs that are there: `records`, where they
        have been read before.
        """
        settings = read_settings(directory)
        records = read_records(directory) if records is None else records
        rows = [(record.label, record.point, record.seed, record.run) for record in records]
        return cls.assemble(settings, rows)

    @classmethod
    def assemble(cls, settings: Mapping[str, Any], rows: Iterable[tuple[str, Mapping[str, Any], int, Run]]) -> Results:
        """Results of the (label, sweep point, seed, run) in `rows`, in the order in which `settings` name them. Seeds
        that nobody asks for are left out: whoever adds some for later has not looked at them yet.
        """
        cases, sweep, wanted = settings["cases"], settings["sweep"], _wanted(settings)
        order = {_case(case["label"], case["point"]): at for at, case in enumerate(cases)}
        ranked = sorted(
            (row for row in rows if (_case(row[0], row[1]), row[2]) in wanted),
            key=lambda row: (order[_case(row[0], row[1])], row[2]),
        )
        frame = tidy(ranked, sweep)
        final = final_rows(frame, sweep)
        rows_of_all, ends_of_all = frame, final
        unchosen = _wanted(settings, chosen=False)
        if len(unchosen) < len(wanted):
            rows_of_all = tidy([row for row in ranked if (_case(row[0], row[1]), row[2]) in unchosen], sweep)
            ends_of_all = final_rows(rows_of_all, sweep)
        return cls(
            title=settings["title"],
            source=settings["source"],
            description=settings["description"],
            settings={**settings["identity"], "seeds": settings["seeds"]},
            sweep=sweep,
            frame=frame,
            claims=[
                _judged(claim, frame, final, sweep) if claim.kinds else _judged(claim, rows_of_all, ends_of_all, sweep)
                for claim in parse_claims(settings["claims"])
            ],
            missing=len(wanted) - len(ranked),
            published=[
                Published.model_validate(figure).beside(ends_of_all)
                for figure in settings.get("published", [])
                if ranked
            ],
            portraits=[Portrait(row[0], row[1], row[2], row[3].portrait) for row in ranked if row[3].portrait],
        )


def told_range(least: int, most: int) -> str:
    """One number, or from one to another.

    >>> told_range(30, 30), told_range(30, 180)
    ('30', '30 to 180')
    """
    return str(least) if least == most else f"{least} to {most}"


def tidy(rows: Iterable[tuple[str, Mapping[str, Any], int, Run]], sweep: Sequence[str]) -> pd.DataFrame:
    """The runs one below the other; coordinates that do not concern an algorithm are NaN."""
    heads, runs = [], []
    for label, point, seed, run in rows:
        where = {"algorithm": label, **{name: point.get(name, np.nan) for name in sweep}, "seed": seed}
        where.setdefault("clients", len(run.regret_by_client))
        heads.append(where)
        runs.append(run)
    if not runs:
        # a sweep may be over the number of clients
        return pd.DataFrame(columns=list(dict.fromkeys(["algorithm", *sweep, "seed", "clients", "step", "seconds"])))
    steps = [len(run.frame) for run in runs]
    repeated = pd.DataFrame(heads).loc[np.repeat(np.arange(len(runs)), steps)].reset_index(drop=True)
    frame = pd.concat([run.frame for run in runs], ignore_index=True)
    return pd.concat([repeated, frame], axis=1).assign(seconds=np.repeat([run.seconds for run in runs], steps))


def final_rows(frame: pd.DataFrame, sweep: Sequence[str]) -> pd.DataFrame:
    """The last step of each run in `frame`."""
    groups = frame.groupby(["algorithm", *sweep, "seed"], sort=False, dropna=False)
    return frame.loc[groups["step"].idxmax()].reset_index(drop=True)


def _judged(claim: Claim, frame: pd.DataFrame, final: pd.DataFrame, sweep: Sequence[str]) -> Verdict:
    """The verdict by the runs in `frame`, whose last rows are `final`."""
    if final.empty:
        return Verdict(claim.text, "undecided", "no run is finished")
    key = ["algorithm", *sweep]
    if claim.about_course and (alone := _ends_alone(claim, frame, key)):
        told = f"it is about the course of runs, and of {alone:,} their end alone is known"
        return Verdict(claim.text, "undecided", told, {ENDS_ALONE: alone})
    return _priced(claim, claim.judge(frame, final), final, key)


def _ends_alone(claim: Claim, frame: pd.DataFrame, key: list[str]) -> int:
    """Of how many of the runs that a claim is about the end alone is known (`findings.ends`)."""
    kept = frame.groupby([*key, "seed"], sort=False, dropna=False).size()
    cases = kept.index[kept == 1]
    return sum(claim.speaks_of(label, dict(zip(key[1:], at, strict=True))) for label, *at, _ in cases)


def _priced(claim: Claim, verdict: Verdict, final: pd.DataFrame, key: list[str]) -> Verdict:
    """`verdict` with what the seeds that would decide it are going to take, of one core of this machine."""
    needed = verdict.details.get("seeds_to_decide")
    if needed is None:
        return verdict
    seconds = 0.0
    where: Any
    for where, rows in final.groupby(key, sort=False, dropna=False):
        if claim.speaks_of(where[0], dict(zip(key[1:], where[1:], strict=True))):
            seconds += max(0, needed - len(rows)) * float(rows["seconds"].mean())
    return replace(verdict, details={**verdict.details, "seconds_to_decide": seconds})


def _wanted(settings: Mapping[str, Any], *, chosen: bool = True) -> set[tuple[tuple[Any, ...], int]]:
    """Every case under every seed, its own further ones among them, and those that are `chosen` for their instances."""
    own = ("further", "chosen") if chosen else ("further",)
    return {
        (_case(case["label"], case["point"]), seed)
        for case in settings["cases"]
        for seed in (*settings["seeds"], *(seed for name in own for seed in case.get(name, ())))
    }


def _case(label: str, point: Mapping[str, Any]) -> tuple[Any, ...]:
    return (label, *sorted((name, str(value)) for name, value in point.items()))
