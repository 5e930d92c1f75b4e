"""A page for every algorithm of the catalogue, and one for all: what is written about it elsewhere, put together.

A hook of mkdocs. The text is the docstring's; what crosses, when, and what is guaranteed are the catalogue's (`About`);
parameters are the class's own; what it costs was measured (`benchmarks.costs`, on record in `docs/speed.json`);
experiments are the files that name it, with the verdicts on record (`docs/verdicts`).
Nothing is written here, so nothing has to be kept up: whoever adds an algorithm to the registry has a page.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types
from pydantic.fields import FieldInfo

from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.experiments import Experiment, load_experiment, shipped_experiments
from fedbandits.findings.recorded import Recorded
from fedbandits.report.readable import human, with_error

sys.path.insert(0, str(Path(__file__).parent))
from examples import fenced

FOLDER = "algorithms"
RECORDS = Path(__file__).parent.parent / "verdicts"
COSTS = Path(__file__).parent.parent / "speed.json"
_BOUNDS = {annotated_types.Gt: ">", annotated_types.Ge: "≥", annotated_types.Lt: "<", annotated_types.Le: "≤"}
_CALLS = {"never": "never", "scheduled": "by turns alone", "data": "depends on what agents have observed"}
VERDICTS = {"holds": "holds", "fails": "**fails**", "undecided": "undecided"}
_FIGURES = ("regret", "messages", "bytes")
_WAYS = {"uplink": "to the server", "downlink": "from the server", "peerlink": "along links of the graph"}
_CALLED = {
    "armed": "K-armed",
    "generalized": "Generalized linear",
    "gp": "Gaussian processes",
    "kernel": "Kernels",
    "nonlinear": "Non-linear",
}
"""Families whose names are not words."""


def on_config(config: Any) -> Any:
    """A section of the navigation, after what it is about."""
    families: dict[str, list[Any]] = {}
    for name, kind in ALGORITHMS.importable().items():
        families.setdefault(kind.about.family, []).append({name: f"{FOLDER}/{name}.md"})
    pages = [f"{FOLDER}/index.md", *({titled(family): held} for family, held in families.items())]
    config.nav = [
        {"Algorithms": pages} if part == {"Algorithms": f"{FOLDER}/index.md"} else part for part in config.nav
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages, as if they stood in docs/algorithms."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def pages(records: Path = RECORDS) -> dict[str, str]:
    """The text of every page, by where it stands."""
    kinds = ALGORITHMS.importable()
    made = {f"{FOLDER}/{name}.md": page(name, kind, records) for name, kind in kinds.items()}
    return {f"{FOLDER}/index.md": index(kinds)} | made


def titled(family: str) -> str:
    """What a family is called in headings."""
    return _CALLED.get(family, family.capitalize())


def index(kinds: Mapping[str, type[Any]]) -> str:
    """All algorithms, family by family."""
    lines = ["# Algorithms", "", "One page each. Where to begin: [which algorithm](../choosing.md).", ""]
    families = dict.fromkeys(kind.about.family for kind in kinds.values())
    for family in families:
        rows = [
            (f"[`{name}`]({name}.md)", kind.about.topology, kind.about.talks, kind.about.guarantee)
            for name, kind in kinds.items()
            if kind.about.family == family
        ]
        lines += [f"## {titled(family)}", "", *table(("", "topology", "talks", "guarantee"), rows), ""]
    return "\n".join(lines)


def page(name: str, kind: type[Any], records: Path) -> str:
    """All that is known of one algorithm."""
    about: About = kind.about
    first, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
    lines = [f"# {name}", "", fenced(first), "", *facts(about), ""]
    if rest:
        lines += ["## What it does", "", fenced(rest).strip(), ""]
    lines += ["## What crosses the wire", "", *wire(about), ""]
    lines += ["## Parameters", "", *parameters(kind), ""]
    lines += ["## Cost", "", *cost(name), ""]
    lines += ["## Experiments", "", *experiments(name, records)]
    return "\n".join(lines).rstrip() + "\n"


def facts(about: About) -> list[str]:
    """The catalogue's entry."""
    told = {
        "topology": about.topology,
        "talks": about.talks,
        "when agents call": _CALLS[about.calls],
        "guarantee": about.guarantee,
        "private": "yes" if about.private else "not by itself",
        "source": about.source,
        "at home in": f"`{about.environment}`",
    }
    if about.extra is not None:
        told["needs"] = f"`pip install 'fedbandits[{about.extra}]'`"
    if about.oracle:
        told["oracle"] = "is told what everybody else has to find out: a yardstick, not for use"
    return table(("family", titled(about.family)), list(told.items()))


def wire(about: About) -> list[str]:
    """Every kind of message, and its fields."""
    if not about.says:
        return ["Nothing."]
    return table(
        ("message", "direction", "fields"),
        [
            (f"`{each.kind}`", each.direction, ", ".join(map(str, each.fields)) or "a signal, without content")
            for each in about.says
        ],
    )


def parameters(kind: type[Any]) -> list[str]:
    """What may be given, and what the classes say in which parameters are declared."""
    fields = [item for item in dataclasses.fields(kind) if item.init]
    if not fields:
        return ["None."]
    hints = get_type_hints(kind, include_extras=True)
    lines = table(
        ("", "is", "default"), [(f"`{item.name}`", domain(hints[item.name]), default(item)) for item in fields]
    )
    for base in reversed(kind.__mro__[1:]):
        own = inspect.get_annotations(base)
        if base.__doc__ and any(item.name in own for item in fields) and dataclasses.is_dataclass(base):
            lines += ["", fenced(inspect.cleandoc(base.__doc__))]
    return lines


def domain(hint: Any) -> str:
    """What values an annotation allows, in words.

    >>> from typing import Annotated, Literal
    >>> from pydantic import Field
    >>> domain(Annotated[float, Field(gt=0, lt=1)] | Literal["theory"] | None)
    'a number > 0, < 1, or `theory`, or none'
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return ", or ".join(domain(part) for part in get_args(hint))
    if origin is Annotated:
        bare, *notes = get_args(hint)
        limits = [limit for note in notes for limit in (note.metadata if isinstance(note, FieldInfo) else [note])]
        said = [f"{sign} {bound(limit):g}" for limit in limits for of, sign in _BOUNDS.items() if isinstance(limit, of)]
        return " ".join([domain(bare), ", ".join(said)]).strip()
    if origin is Literal:
        return ", or ".join(f"`{value}`" for value in get_args(hint))
    plain = {float: "a number", int: "a whole number", bool: "yes or no", str: "text", type(None): "none"}
    if hint in plain:
        return plain[hint]
    if origin is tuple:
        return "several: " + ", ".join(dict.fromkeys(domain(part) for part in get_args(hint) if part is not ...))
    return f"`{getattr(hint, '__name__', hint)}`"


def bound(limit: Any) -> float:
    """The number of a bound."""
    return float(getattr(limit, type(limit).__name__.lower()))


def default(item: dataclasses.Field[Any]) -> str:
    """What a parameter is if it is not given."""
    if item.default is dataclasses.MISSING:
        return "has to be given" if item.default_factory is dataclasses.MISSING else f"`{item.default_factory()}`"
    return "none" if item.default is None else f"`{item.default}`"


def cost(name: str) -> list[str]:
    """What it took where it is at home, with everything as it is by default."""
    found = all_costs().get(name)
    if found is None:
        return ["Not measured yet; `make speed` does."]
    graph = f", graph `{found['network']}`" if found["network"] else ""
    where = (
        f"`{found['environment']}`, {found['agents']} agents, d = {found['dim']}, {found['arms']} arms{graph}; "
        f"{found['turns']} turns each, default parameters"
    )
    told = {
        "a decision, learning and talk included": f"{human(found['microseconds'], digits=2)} µs of one core",
        "what an agent keeps": human(found["kept_bytes"], "B"),
    }
    for way, called in _WAYS.items():
        if found["letters"][way]:
            letters, scalars = (human(found[what][way]) for what in ("letters", "scalars"))
            told[f"{called}, for each agent"] = f"{letters} messages, {scalars} scalars"
    return [*table(("at home", where), list(told.items())), "", "Measured with [everything else](../speed.md)."]


@cache
def all_costs() -> dict[str, dict[str, Any]]:
    """What is on record, by algorithm."""
    return {each["algorithm"]: each for each in json.loads(COSTS.read_text(encoding="utf-8"))["costs"]}


def experiments(name: str, records: Path) -> Iterator[str]:
    """Every experiment that runs it: what it measured, and each claim about it with its verdict."""
    some = False
    for title, experiment in all_experiments().items():
        labels = [label for label, part in experiment.algorithms.items() if part.name == name]
        if not labels:
            continue
        some = True
        called = ", ".join(f"*{label}*" for label in labels)
        yield f"**`{title}`**: {experiment.title} ({experiment.source}), as {called}."
        try:
            recorded = Recorded.read(records / f"{title}.json")
        except ConfigError:
            yield from ["Not on record.", ""]
            continue
        yield ""
        if not recorded.sweep:
            cases = [case for case in recorded.cases if case["algorithm"] in labels]
            shown = [metric for metric in _FIGURES if all(metric in case["figures"] for case in cases)]
            rows = [(case["algorithm"], *(figure(*case["figures"][metric][:2]) for metric in shown)) for case in cases]
            yield from table((f"{recorded.told_seeds} seeds", *shown), rows)
            yield ""
        for claim, verdict in zip(experiment.claims, recorded.claims, strict=True):
            if mentions(claim.model_dump(), labels):
                yield f"- {verdict.text}: {VERDICTS[verdict.verdict]} ({verdict.measured})"
        yield ""
    if not some:
        yield "None of those that are shipped."


@cache
def all_experiments() -> dict[str, Experiment]:
    """What is shipped, by name."""
    return {name: load_experiment(path) for name, path in shipped_experiments().items()}


def mentions(claim: Any, labels: Sequence[str]) -> bool:
    """Whether one of `labels` is among the values of a claim."""
    if isinstance(claim, dict):
        return any(mentions(value, labels) for key, value in claim.items() if key != "text")
    if isinstance(claim, list | tuple):
        return any(mentions(value, labels) for value in claim)
    return claim in labels


def figure(mean: float, error: float | None) -> str:
    """A mean with its standard error."""
    return with_error(mean, math.nan if error is None else error)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; bars within cells do not end them."""
    cells = [" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {row} |" for row in cells)]
