"""Pages quote experiments by marks, and this fills them in: `python docs/_extensions/measured.py PAGE...`.

Between `<!-- measured KIND EXPERIMENT ... KEY=VALUE ... -->` and `<!-- /measured -->` stands what is on record of these
experiments, in docs/verdicts/EXPERIMENT.json (`fedbandits.findings.recorded`):

    verdicts EXPERIMENT...                       a table: seeds, and how many claims hold, fail and are undecided
    claims EXPERIMENT...                         every claim with its verdict and figures, or only=fails
    table EXPERIMENT metric= columns=            means with standard errors, a row for every algorithm, or rows=COLUMN;
                                                 with columns=algorithm a single row; of several experiments a row each;
                                                 with medians=yes the median in brackets; with columns=metric one column
                                                 for each metric="A;B", algorithms in the order of `of`
    best EXPERIMENT metric=                      a table: of all settings that were tried of each algorithm the one with
                                                 the lowest mean, for each value of the columns that concern everybody
    value EXPERIMENT metric= of=                 one mean, within a line of text; per=LABEL divides it by another's
    runs EXPERIMENT metric= of= tell=            of the runs of an algorithm, in a line: count, mean, median or most;
                                                 above, how many have more than above=NUMBER; more, less or equal: how
                                                 many have that beside than=LABEL under the same seeds. Of as many
                                                 seeds as were asked for, or of the first seeds=N
    picture EXPERIMENT metric= x= file= alt=     a line for every algorithm against a sweep column, or lines=COLUMN;
                                                 x may be a metric, too: what one has against what the other costs
    unrecorded                                   which experiments pages quote that are not on record

`rows`, `columns`, `x` and `lines` are algorithm, a sweep column, or `label` and `number`: what an algorithm's label is
without the number at its end, and that number, as in "tree 0.1". `at.COLUMN=VALUE` keeps those rows, and algorithms
that the column does not concern; `of="A;B"` these algorithms; `name.A="..."` says what A is called, or, of an
experiment in a table of verdicts, what it is about.

What `fedbandits run EXPERIMENT` has left in results/EXPERIMENT is put on record first, if it is complete: every run, as
many seeds as the file asks for, and its claims (`--results DIR` and `--records DIR` look elsewhere). Of experiments
that are not on record marks keep what they say: tables of verdicts and lists of claims line by line, the others as a
whole. They are named under `unrecorded`; a mark that says nothing yet is an error. `--check` writes nothing, and fails
if a page says other things than the records, or a record other things than the results.

How each run ended is kept, too, complete or not, in docs/verdicts/runs/EXPERIMENT.parquet (`fedbandits.findings.ends`):
`fedbandits run EXPERIMENT --known FILE` goes on from there.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lines import Line, Point, drawing
from matplotlib.figure import Figure
from single_runs import ended_with, same, tell_of

from fedbandits.contract.errors import ConfigError
from fedbandits.experiments import load_experiment, shipped_experiments
from fedbandits.findings.ends import Ends
from fedbandits.findings.metrics import known_metric, metric_of
from fedbandits.findings.recorded import Recorded
from fedbandits.findings.records import read_records
from fedbandits.report.readable import human, with_error

BEGIN, END = r"(?<!`)<!-- measured ", r"(?<!`)<!-- /measured -->"
"""A mark in backticks is one that a page speaks of."""
MARK = re.compile(f"{BEGIN}(?P<words>.*?) -->(?P<text>.*?){END}", re.DOTALL)
RUNS = "runs"
"""Where among the records the ends of runs are."""
_VERDICTS = {"holds": "holds", "fails": "**fails**", "undecided": "undecided"}


@dataclass(frozen=True)
class Asked:
    """What one mark asks for."""

    names: Sequence[str]
    options: dict[str, str]
    records: Path
    page: Path
    drawn: dict[Path, Figure] = field(default_factory=dict)
    """Pictures, by the files they are for."""
    loaded: dict[str, Recorded] = field(default_factory=dict)
    """What was read already."""
    ended: dict[str, Ends] = field(default_factory=dict)
    """How runs ended, as far as it was read already."""
    before: str = ""
    """What the mark says."""

    @property
    def missing(self) -> list[str]:
        """The experiments that are not on record."""
        return [name for name in self.names if not (self.records / f"{name}.json").is_file()]

    def kept(self, name: str, begin: str) -> list[str]:
        """The lines about an experiment that is not on record: those which `begin` with its name."""
        lines = [line for line in self.before.splitlines() if line.startswith(f"{begin} `{name}`")]
        if not lines and not self.before.strip():
            raise ConfigError(f"{self.page.name}: {name} is not on record; run `fedbandits run {name}`")
        return lines

    @property
    def at(self) -> dict[str, str]:
        """The values of columns that are asked for."""
        return {key.removeprefix("at."): value for key, value in self.options.items() if key.startswith("at.")}

    def load(self, name: str) -> Recorded:
        """What is on record of one experiment."""
        if name not in self.loaded:
            self.loaded[name] = Recorded.read(self.records / f"{name}.json")
        return self.loaded[name]

    def one(self) -> Recorded:
        """What is on record of the only experiment."""
        if len(self.names) != 1:
            raise ConfigError(f"{self.page.name}: one experiment is needed (got {', '.join(self.names) or 'none'})")
        return self.load(self.names[0])

    def option(self, key: str, default: str | None = None) -> str:
        """One option; an error where it is needed and not given."""
        found = self.options.get(key, default)
        if found is None:
            raise ConfigError(f"{self.page.name}: the mark of {', '.join(self.names)} lacks {key}=")
        return found

    def called(self, name: Any) -> str:
        """What an algorithm, or a value, is called."""
        plain = human(float(name)) if isinstance(name, int | float | np.number) else str(name)
        return self.options.get(f"name.{plain}", plain)

    def figures(self, recorded: Recorded, by: Sequence[str]) -> pd.DataFrame:
        """`mean`, `error` and `median` of the metric for each combination of the columns `by`."""
        metric = self.option("metric")
        if not known_metric(metric):
            raise ConfigError(f"{self.page.name}: there is no metric {metric!r}")
        known = [*recorded.key, "label", "number"]
        for column in (*by, *self.at):
            if column not in known:
                raise ConfigError(f"{self.page.name}: {column!r} is none of {', '.join(known)}")
        rows = _labelled(recorded.figures(metric))
        for column, value in self.at.items():
            held = rows[column]
            rows = rows[held.isna() | held.map(lambda each, value=value: same(each, value))]
        if "of" in self.options:
            labels = self.options["of"].split(";")
            if unknown := set(labels) - set(recorded.algorithms):
                raise ConfigError(f"{self.page.name}: no algorithm {', '.join(sorted(unknown))}")
            rows = rows[rows["algorithm"].isin(labels)]
        if rows.empty:
            raise ConfigError(f"{self.page.name}: no run of {', '.join(self.names)} is what a mark asks for")
        if rows.duplicated(list(by)).any():
            raise ConfigError(f"{self.page.name}: several runs for each {', '.join(by)}; say which by at.COLUMN=VALUE")
        return rows[[*by, "mean", "error", "median"]].reset_index(drop=True)


def verdicts(asked: Asked) -> str:
    """How many claims of each experiment hold."""
    lines = ["| experiment | seeds | verdicts |", "|---|---|---|"]
    for name in asked.names:
        if name in asked.missing:
            lines += asked.kept(name, "|")
            continue
        recorded = asked.load(name)
        found: list[str] = [claim.verdict for claim in recorded.claims]
        counts = [(found.count(kind), kind) for kind in _VERDICTS]
        words = [f"{count} {kind if count == 1 else kind.removesuffix('s')}" for count, kind in counts if count]
        title = f"`{name}` ({asked.options[f'name.{name}']})" if f"name.{name}" in asked.options else f"`{name}`"
        lines.append(f"| {title} | {recorded.told_seeds} | {', '.join(words) or 'no claims'} |")
    return "\n".join(lines)


def claims(asked: Asked) -> str:
    """The claims of experiments, all of them or those of one verdict."""
    only = asked.options.get("only", "")
    if only and only not in _VERDICTS:
        raise ConfigError(f"{asked.page.name}: only={only} is none of {', '.join(_VERDICTS)}")
    lines: list[str] = []
    for name in asked.names:
        if name in asked.missing:
            lines += asked.kept(name, "-")
            continue
        for claim in asked.load(name).claims:
            if only in ("", claim.verdict):
                said = f" ({claim.measured})" if only else f": {_VERDICTS[claim.verdict]} ({claim.measured})"
                lines.append(f"- `{name}`: {claim.text}{said}")
    return "\n".join(lines)


def table(asked: Asked) -> str:
    """Means under columns; what a column does not concern has the same figure in each."""
    across = asked.option("columns")
    several = len(asked.names) > 1
    down = "experiment" if several else asked.options.get("rows", None if across == "algorithm" else "algorithm")
    if across == "metric":
        figures = _of_metrics(asked)
    elif several:
        figures = pd.concat(
            [asked.figures(asked.load(name), [across]).assign(experiment=name) for name in asked.names],
            ignore_index=True,
        )
    else:
        figures = asked.figures(asked.one(), [across] if down is None else [down, across])
    heads = [value for value in pd.unique(figures[across]) if not pd.isna(value)]
    if across == "number":
        heads.sort(reverse=bool(heads[:1] == [max(heads, default=0)]))
    corner = asked.options.get("corner", "" if down is None or several or across == "metric" else across)
    lines = [f"| {corner} | {' | '.join(map(asked.called, heads))} |", "|---" * (len(heads) + 1) + "|"]
    if down is None:
        titled = [(metric_of(asked.option("metric")).title, figures)]
    else:
        titled = [(asked.called(name), figures[figures[down] == name]) for name in pd.unique(figures[down])]
    for title, rows in titled:
        cells = [rows[rows[across].isna() | (rows[across] == head)] for head in heads]
        shown = [_shown(asked, cell.iloc[0]) if len(cell) else "" for cell in cells]
        lines.append(f"| {title} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _of_metrics(asked: Asked) -> pd.DataFrame:
    """As `figures` by algorithm, of several metrics under their titles."""
    parts = []
    for name in asked.option("metric").split(";"):
        told = replace(asked, options=asked.options | {"metric": name}).figures(asked.one(), ["algorithm"])
        parts.append(told.assign(metric=metric_of(name).title))
    found = pd.concat(parts, ignore_index=True)
    if "of" not in asked.options:
        return found
    order = {label: place for place, label in enumerate(asked.options["of"].split(";"))}
    return found.sort_values("algorithm", key=lambda labels: labels.map(order), kind="stable")


def _shown(asked: Asked, figure: pd.Series) -> str:
    """A cell: the mean with its error, and the median where it is asked for."""
    told = with_error(*figure[["mean", "error"]])
    if asked.options.get("medians") != "yes":
        return told
    if pd.isna(figure["median"]):
        raise ConfigError(f"{asked.page.name}: {', '.join(asked.names)} has no medians on record; run it again")
    return f"{told} ({human(figure['median'])})"


def best(asked: Asked) -> str:
    """What did best of all settings that were tried."""
    recorded = asked.one()
    metric = metric_of(asked.option("metric"))
    chosen = recorded.best(asked.option("metric"))
    common = [str(column) for column in chosen.columns if column in recorded.sweep]
    lines = [
        f"| {' | '.join(['', *common, 'settings tried', 'best', metric.title])} |",
        "|---" * (len(common) + 4) + "|",
    ]
    for _, row in chosen.iterrows():
        setting = ", ".join(f"`{name}` {human(value)}" for name, value in row["setting"].items())
        cells = [asked.called(row["algorithm"]), *(asked.called(row[column]) for column in common)]
        lines.append(f"| {' | '.join([*cells, str(row['tried']), setting, _shown(asked, row)])} |")
    return "\n".join(lines)


def value(asked: Asked) -> str:
    """One figure."""
    recorded = asked.one()

    def mean(label: str) -> float:
        figures = replace(asked, options=asked.options | {"of": label}).figures(recorded, ["algorithm"])
        return float(figures["mean"].iloc[0])

    found = mean(asked.option("of"))
    if "per" in asked.options:
        found /= mean(asked.options["per"])
    return human(found, digits=int(asked.options.get("digits", "3")))


def runs(asked: Asked) -> str:
    """Something about single runs."""
    recorded, of, than = asked.one(), asked.option("of"), asked.options.get("than", "")
    if unknown := {of, than} - {"", *recorded.algorithms}:
        raise ConfigError(f"{asked.page.name}: no algorithm {', '.join(sorted(unknown))}")
    if recorded.name not in asked.ended:
        asked.ended[recorded.name] = Ends.read(asked.records / RUNS / f"{recorded.name}.parquet")
    seeds = int(asked.options.get("seeds", _asked_for(recorded, of, asked.at)))
    held = ended_with(asked.ended[recorded.name], asked.option("metric"), asked.at)
    found = tell_of(held, asked.option("tell"), of, seeds, than, float(asked.options.get("above", "nan")))
    return f"{found:,}" if isinstance(found, int) else human(found, digits=int(asked.options.get("digits", "3")))


def _asked_for(recorded: Recorded, label: str, at: Mapping[str, str]) -> int:
    """How many seeds an algorithm has at the points that `at` names."""
    cases = [case for case in recorded.cases if case["algorithm"] == label]
    found = [case for case in cases if all(same(case["point"].get(name), given) for name, given in at.items())]
    if not found:
        raise ConfigError(f"no run of {recorded.name} is what a mark asks for")
    return max(map(recorded.seeds_of, found))


def picture(asked: Asked) -> str:
    """Lines with bars of one standard error, drawn into a file beside the page."""
    recorded = asked.one()
    x, lines = asked.option("x"), asked.option("lines", "algorithm")
    against = known_metric(x) and x not in recorded.key
    figures = _against(asked, recorded, x, lines) if against else asked.figures(recorded, [lines, x])
    metric = metric_of(asked.option("metric"))
    asked.drawn[asked.page.parent / asked.option("file")] = drawing(
        [
            Line(asked.called(name), [Point(*row) for row in rows.itertuples(index=False)])
            for name in pd.unique(figures[lines])
            for rows in [figures[figures[lines] == name].sort_values(x)[[x, "mean", "error"]]]
        ],
        title=asked.options.get("title", metric.title),
        xlabel=asked.options.get("xlabel", x),
        values=not against,
    )
    return f"![{asked.option('alt')}]({asked.option('file')})"


def _against(asked: Asked, recorded: Recorded, x: str, lines: str) -> pd.DataFrame:
    """As `figures`, with the mean of the metric `x` in a column of that name; what has none of it is at no place."""
    by = [lines] if lines == "algorithm" else [lines, "algorithm"]
    costs = replace(asked, options=asked.options | {"metric": x}).figures(recorded, by)["mean"]
    return asked.figures(recorded, by).assign(**{x: costs.where(costs > 0)})


def unrecorded(asked: Asked) -> str:
    """The experiments that pages beside this one quote and that are not on record."""
    quoted = sorted({name for page in sorted(asked.page.parent.rglob("*.md")) for name in quoted_by(page)})
    missing = replace(asked, names=quoted).missing
    return ", ".join(f"`{name}`" for name in missing) + "." if missing else "None."


KINDS: dict[str, Callable[[Asked], str]] = {
    "verdicts": verdicts,
    "claims": claims,
    "table": table,
    "best": best,
    "value": value,
    "runs": runs,
    "picture": picture,
    "unrecorded": unrecorded,
}
WITHIN_A_LINE = ("value", "runs")
LINE_BY_LINE = ("verdicts", "claims")


def quoted_by(page: Path) -> set[str]:
    """The experiments that marks of `page` name."""
    marks = MARK.finditer(page.read_text(encoding="utf-8"))
    return {word for mark in marks for word in shlex.split(mark["words"])[1:] if "=" not in word}


def filled(page: Path, records: Path) -> tuple[str, dict[Path, Figure]]:
    """The text of `page`, its marks filled in from `records`, and the pictures that belong to it."""
    text = page.read_text(encoding="utf-8")
    if len({len(re.findall(pattern, text)) for pattern in (BEGIN, END, MARK)}) > 1:
        raise ConfigError(f"{page.name}: a mark is not closed; end it with <!-- /measured -->")
    drawn: dict[Path, Figure] = {}
    loaded: dict[str, Recorded] = {}
    ended: dict[str, Ends] = {}

    def fill(found: re.Match[str]) -> str:
        kind, *words = shlex.split(found["words"])
        if kind not in KINDS:
            raise ConfigError(f"{page.name}: there is no {kind!r}; known are: {', '.join(KINDS)}")
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        asked = Asked(names, options, records, page, drawn, loaded, ended, found["text"])
        if asked.missing and kind not in LINE_BY_LINE:
            if not found["text"].strip(" \n?"):
                name = asked.missing[0]
                raise ConfigError(f"{page.name}: {name} is not on record; run `fedbandits run {name}`")
            return found[0]
        told = KINDS[kind](asked)
        room = "" if kind in WITHIN_A_LINE else "\n"
        return f"<!-- measured {found['words']} -->{room}{told}{room}<!-- /measured -->"

    return MARK.sub(fill, text), drawn


def differing_records(results: Path, records: Path, names: Iterable[str]) -> tuple[dict[Path, str], dict[Path, Ends]]:
    """What records of those of `names` that were run to the end should say, where they say something else; and the ends
    of all runs that are there, on record or not, where more is there than has been kept.
    """
    texts, ends = {}, {}
    for name in names:
        if not (results / name).is_dir():
            continue
        runs = read_records(results / name)
        kept = records / RUNS / f"{name}.parquet"
        before = Ends.read(kept) if kept.is_file() else Ends([])
        if (now := Ends.among(runs).beside(before)).made_by != before.made_by:
            ends[kept] = now
        try:
            recorded, path = Recorded.of(name, results / name, runs), records / f"{name}.json"
            _require_whole(recorded)
            if path.is_file():
                recorded.require_looks(Recorded.read(path))
        except ConfigError as error:
            print(f"not put on record: {error}", file=sys.stderr)
            continue
        text = recorded.text()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            texts[path] = text
    return texts, ends


def _require_whole(recorded: Recorded) -> None:
    """Refuse results of a shipped experiment that are of other claims, or of fewer seeds, than its file."""
    small = recorded.name.removesuffix("-full")
    if small not in shipped_experiments():
        return
    experiment = load_experiment(small)
    if small != recorded.name:
        experiment = experiment.enlarged()
    if recorded.seeds < experiment.run.seeds:
        raise ConfigError(f"{recorded.name} has {recorded.seeds} of {experiment.run.seeds} seeds")
    for case in recorded.cases:
        held, asked = recorded.seeds_of(case), experiment.seeds_of(case["algorithm"], case["point"])
        if held < asked:
            raise ConfigError(
                f"{recorded.name} has {held} of the {asked} seeds that claims about {case['algorithm']} ask for"
            )
    if [claim.text for claim in recorded.claims] != [claim.text for claim in experiment.claims]:
        raise ConfigError(f"the results of {recorded.name} are of other claims than its file")


def main(words: Sequence[str] | None = None) -> int:
    """Fill pages in, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where `fedbandits run` has left them")
    parser.add_argument("--records", type=Path, default=Path("docs/verdicts"), help="what is kept of them")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs from the records")
    given = parser.parse_args(words)
    try:
        names = {*shipped_experiments(), *(name for page in given.pages for name in quoted_by(page))}
        records, ends = differing_records(given.results, given.records, sorted(names))
        if not given.check:
            (given.records / RUNS).mkdir(parents=True, exist_ok=True)
            for path, text in records.items():
                path.write_text(text, encoding="utf-8")
            for path, kept in ends.items():
                kept.write(path)
        pages = {page: filled(page, given.records) for page in given.pages}
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    differing = [page for page, (text, _) in pages.items() if text != page.read_text(encoding="utf-8")]
    if not given.check:
        for page, (text, drawn) in pages.items():
            page.write_text(text, encoding="utf-8")
            for path, figure in drawn.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, metadata={"Software": None})
    for path in (*records, *ends, *differing):
        print(f"{path}: {'says something else than what was measured' if given.check else 'filled in'}")
    return 1 if given.check and (differing or records or ends) else 0


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with `label` and `number`: "tree 0.1" is tree at 0.1, and a label without a number is at none."""
    found = rows["algorithm"].str.extract(r"^(?P<label>.*?)(?: (?P<number>[0-9.]+))?$")
    return rows.assign(label=found["label"], number=pd.to_numeric(found["number"]))


if __name__ == "__main__":
    sys.exit(main())
