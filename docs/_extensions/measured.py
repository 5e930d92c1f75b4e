"""Pages quote results by marks, and this fills them in: `python docs/_extensions/measured.py PAGE...`.

Between `<!-- measured KIND EXPERIMENT ... KEY=VALUE ... -->` and `<!-- /measured -->` stands what the results of these
experiments say, as `fedbandits run EXPERIMENT` has left them in results/EXPERIMENT:

    verdicts EXPERIMENT...                       a table: seeds, and how many claims hold, fail and are undecided
    claims EXPERIMENT...                         every claim with its verdict and figures, or only=fails
    table EXPERIMENT metric= columns=            means with standard errors, a row for every algorithm, or rows=COLUMN;
                                                 with columns=algorithm a single row; of several experiments a row each
    value EXPERIMENT metric= of=                 one mean, within a line of text; per=LABEL divides it by another's
    picture EXPERIMENT metric= x= file= alt=     a line for every algorithm against a sweep column, or lines=COLUMN

`rows`, `columns`, `x` and `lines` are algorithm, a sweep column, or `label` and `number`: what an algorithm's label is
without the number at its end, and that number, as in "tree 0.1". `at.COLUMN=VALUE` keeps those rows, and algorithms
that the column does not concern; `of="A;B"` these algorithms; `name.A="..."` says what A is called. `--results DIR`
looks elsewhere; `--check` writes nothing, and fails if a page says other things than the results.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lines import Line, Point, drawing
from matplotlib.figure import Figure

from fedbandits.contract.errors import ConfigError
from fedbandits.findings.metrics import known_metric, measure, metric_of
from fedbandits.findings.results import Results
from fedbandits.report.readable import human, with_error

BEGIN, END = r"(?<!`)<!-- measured ", r"(?<!`)<!-- /measured -->"
"""A mark in backticks is one that a page speaks of."""
MARK = re.compile(f"{BEGIN}(?P<words>.*?) -->(?P<text>.*?){END}", re.DOTALL)
_VERDICTS = {"holds": "holds", "fails": "**fails**", "undecided": "undecided"}


@dataclass(frozen=True)
class Asked:
    """What one mark asks for."""

    names: Sequence[str]
    options: dict[str, str]
    results: Path
    page: Path
    drawn: dict[Path, Figure] = field(default_factory=dict)
    """Pictures, by the files they are for."""
    loaded: dict[str, Results] = field(default_factory=dict)
    """What was read already."""

    def load(self, name: str) -> Results:
        """The results of one experiment, all of its runs."""
        if name in self.loaded:
            return self.loaded[name]
        if not (self.results / name).is_dir():
            raise ConfigError(f"{self.page.name}: there are no results of {name}; run `fedbandits run {name}`")
        results = Results.load(self.results / name)
        if results.missing:
            raise ConfigError(
                f"{self.page.name}: {results.missing} runs of {name} are missing; `fedbandits run {name}`"
            )
        return results

    def one(self) -> Results:
        """The results of the only experiment."""
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

    def figures(self, results: Results, by: Sequence[str]) -> pd.DataFrame:
        """`mean`, `error` and `seeds` of the metric for each combination of the columns `by`."""
        metric = self.option("metric")
        if not known_metric(metric):
            raise ConfigError(f"{self.page.name}: there is no metric {metric!r}")
        rows = _labelled(results.final())
        known = [*results.key, "label", "number"]
        for column in (*by, *(key.removeprefix("at.") for key in self.options if key.startswith("at."))):
            if column not in known:
                raise ConfigError(f"{self.page.name}: {column!r} is none of {', '.join(known)}")
        for key, value in self.options.items():
            if key.startswith("at."):
                held = rows[key.removeprefix("at.")]
                rows = rows[held.isna() | held.map(lambda each, value=value: _same(each, value))]
        if "of" in self.options:
            labels = self.options["of"].split(";")
            if unknown := set(labels) - set(results.algorithms):
                raise ConfigError(f"{self.page.name}: no algorithm {', '.join(sorted(unknown))}")
            rows = rows[rows["algorithm"].isin(labels)]
        if rows.empty:
            raise ConfigError(f"{self.page.name}: no run of {', '.join(self.names)} is what a mark asks for")
        told = rows.assign(figure=measure(rows, metric))
        if (told.groupby([*by, "seed"], dropna=False).size() > 1).any():
            raise ConfigError(f"{self.page.name}: several runs for each {', '.join(by)}; say which by at.COLUMN=VALUE")
        grouped = told.groupby(list(by), sort=False, dropna=False)["figure"]
        return pd.DataFrame({"mean": grouped.mean(), "error": grouped.sem(), "seeds": grouped.size()}).reset_index()


def verdicts(asked: Asked) -> str:
    """How many claims of each experiment hold."""
    lines = ["| experiment | seeds | verdicts |", "|---|---|---|"]
    for name in asked.names:
        results = asked.load(name)
        found: list[str] = [claim.verdict for claim in results.claims]
        counts = [(found.count(kind), kind) for kind in _VERDICTS]
        words = [f"{count} {kind if count == 1 else kind.removesuffix('s')}" for count, kind in counts if count]
        lines.append(f"| `{name}` | {len(results.settings['seeds'])} | {', '.join(words) or 'no claims'} |")
    return "\n".join(lines)


def claims(asked: Asked) -> str:
    """The claims of experiments, all of them or those of one verdict."""
    only = asked.options.get("only", "")
    if only and only not in _VERDICTS:
        raise ConfigError(f"{asked.page.name}: only={only} is none of {', '.join(_VERDICTS)}")
    found = [(name, claim) for name in asked.names for claim in asked.load(name).claims]
    return "\n".join(
        f"- `{name}`: {claim.text}"
        + (f" ({claim.measured})" if only else f": {_VERDICTS[claim.verdict]} ({claim.measured})")
        for name, claim in found
        if only in ("", claim.verdict)
    )


def table(asked: Asked) -> str:
    """Means under columns; what a column does not concern has the same figure in each."""
    across = asked.option("columns")
    several = len(asked.names) > 1
    down = "experiment" if several else asked.options.get("rows", None if across == "algorithm" else "algorithm")
    if several:
        figures = pd.concat(
            [asked.figures(asked.load(name), [across]).assign(experiment=name) for name in asked.names],
            ignore_index=True,
        )
    else:
        figures = asked.figures(asked.one(), [across] if down is None else [down, across])
    heads = [value for value in pd.unique(figures[across]) if not pd.isna(value)]
    corner = asked.options.get("corner", "" if down is None or several else across)
    lines = [f"| {corner} | {' | '.join(map(asked.called, heads))} |", "|---" * (len(heads) + 1) + "|"]
    if down is None:
        titled = [(metric_of(asked.option("metric")).title, figures)]
    else:
        titled = [(asked.called(name), figures[figures[down] == name]) for name in pd.unique(figures[down])]
    for title, rows in titled:
        cells = [rows[rows[across].isna() | (rows[across] == head)] for head in heads]
        shown = [with_error(*cell.iloc[0][["mean", "error"]]) if len(cell) else "" for cell in cells]
        lines.append(f"| {title} | {' | '.join(shown)} |")
    return "\n".join(lines)


def value(asked: Asked) -> str:
    """One figure."""
    results = asked.one()

    def mean(label: str) -> float:
        figures = replace(asked, options=asked.options | {"of": label}).figures(results, ["algorithm"])
        return float(figures["mean"].iloc[0])

    found = mean(asked.option("of"))
    if "per" in asked.options:
        found /= mean(asked.options["per"])
    return human(found, digits=int(asked.options.get("digits", "3")))


def picture(asked: Asked) -> str:
    """Lines with bars of one standard error, drawn into a file beside the page."""
    results = asked.one()
    x, lines = asked.option("x"), asked.option("lines", "algorithm")
    figures = asked.figures(results, [lines, x])
    metric = metric_of(asked.option("metric"))
    asked.drawn[asked.page.parent / asked.option("file")] = drawing(
        [
            Line(asked.called(name), [Point(*row) for row in rows.itertuples(index=False)])
            for name in pd.unique(figures[lines])
            for rows in [figures[figures[lines] == name].sort_values(x)[[x, "mean", "error"]]]
        ],
        title=asked.options.get("title", metric.title),
        xlabel=asked.options.get("xlabel", x),
    )
    return f"![{asked.option('alt')}]({asked.option('file')})"


KINDS: dict[str, Callable[[Asked], str]] = {
    "verdicts": verdicts,
    "claims": claims,
    "table": table,
    "value": value,
    "picture": picture,
}
WITHIN_A_LINE = ("value",)


def filled(page: Path, results: Path) -> tuple[str, dict[Path, Figure]]:
    """The text of `page`, its marks filled in from `results`, and the pictures that belong to it."""
    text = page.read_text(encoding="utf-8")
    if len({len(re.findall(pattern, text)) for pattern in (BEGIN, END, MARK)}) > 1:
        raise ConfigError(f"{page.name}: a mark is not closed; end it with <!-- /measured -->")
    drawn: dict[Path, Figure] = {}
    loaded: dict[str, Results] = {}

    def fill(found: re.Match[str]) -> str:
        kind, *words = shlex.split(found["words"])
        if kind not in KINDS:
            raise ConfigError(f"{page.name}: there is no {kind!r}; known are: {', '.join(KINDS)}")
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        told = KINDS[kind](Asked(names, options, results, page, drawn, loaded))
        room = "" if kind in WITHIN_A_LINE else "\n"
        return f"<!-- measured {found['words']} -->{room}{told}{room}<!-- /measured -->"

    return MARK.sub(fill, text), drawn


def main(words: Sequence[str] | None = None) -> int:
    """Fill pages in, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where `fedbandits run` has left them")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs from the results")
    given = parser.parse_args(words)
    differing = []
    for page in given.pages:
        try:
            text, drawn = filled(page, given.results)
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        if text != page.read_text(encoding="utf-8"):
            differing.append(page)
        if not given.check:
            page.write_text(text, encoding="utf-8")
            for path, figure in drawn.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, metadata={"Software": None})
    for page in differing:
        print(f"{page}: {'says something else than its results' if given.check else 'filled in'}")
    return 1 if given.check and differing else 0


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with `label` and `number`: "tree 0.1" is tree at 0.1, and a label without a number is at none."""
    found = rows["algorithm"].str.extract(r"^(?P<label>.*?)(?: (?P<number>[0-9.]+))?$")
    return rows.assign(label=found["label"], number=pd.to_numeric(found["number"]))


def _same(held: Any, given: str) -> bool:
    try:
        return float(held) == float(given)
    except ValueError:
        return str(held) == given


if __name__ == "__main__":
    sys.exit(main())
