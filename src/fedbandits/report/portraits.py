"""The section that shows who learned with whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from fedbandits.contract.arrays import Array
from fedbandits.contract.portrait import OMITTED, TRUTH, Mistakes, Portrait, mistakes
from fedbandits.report.graphs import LACKING, OUTLINE, RIGHT, WRONG, client_graph
from fedbandits.report.readable import exact, human
from fedbandits.report.section import Section, render

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


@dataclass(frozen=True, slots=True)
class Drawn:
    """One picture of clients, and what is to be said of it; `note` where there is none, or not all of it."""

    title: str
    svg: Markup | None
    facts: Sequence[str]
    note: str = ""


def portraits(results: Results) -> Section | None:
    """The client graph that each algorithm ended with, clients sorted by their true clusters."""
    drawn = list(_drawn(results.portraits))
    if not drawn:
        return None
    known = any(TRUTH in portrait.arrays for portrait in results.portraits)
    inks = {"right": RIGHT, "wrong": WRONG, "lacking": LACKING, "outline": OUTLINE}
    return Section(
        "portraits", "Who learned with whom", render("portraits.html", graphs=drawn, truth_known=known, inks=inks)
    )


def _drawn(found: Sequence[Portrait]) -> Iterator[Drawn]:
    for at, (title, group) in enumerate(groupby(found, key=title_of)):
        own = list(group)
        first = own[0].arrays
        if "graph" in first:
            svg = client_graph(first["graph"], first.get(TRUTH), f"graph-{at}", f"Client graph of {title}")
            yield Drawn(title, svg, list(_facts(own)))
        elif "graph" in first.get(OMITTED, ()):
            yield Drawn(title, None, [], "The graph has too many clients to be kept, and is not shown.")


def title_of(portrait: Portrait) -> str:
    """The algorithm, and where in a sweep it was run."""
    where = ", ".join(f"{name}={value}" for name, value in portrait.point.items())
    return f"{portrait.label} at {where}" if where else portrait.label


def _facts(own: Sequence[Portrait]) -> Iterator[str]:
    first = own[0].arrays
    if TRUTH in first:
        made = [mistakes(portrait.arrays["graph"], portrait.arrays[TRUTH]) for portrait in own]
        yield _told("wrongly joined", [made[0].joined, made[0].different], [_share_joined(m) for m in made])
        yield _told("wrongly separated", [made[0].separated, made[0].alike], [_share_separated(m) for m in made])
    else:
        graph = first["graph"]
        pairs = len(graph) * (len(graph) - 1) // 2
        yield f"{exact(int(np.triu(graph, 1).sum()))} of {exact(pairs)} pairs joined"
    if counted := _clusters(first):
        yield counted


def _told(what: str, here: Sequence[int], shares: Sequence[float]) -> str:
    """The count in the picture and, with several seeds, the mean share over them."""
    text = f"{exact(here[0])} of {exact(here[1])} pairs {what}"
    return text + (f" (all seeds: {human(100 * float(np.mean(shares)), '%', 2)})" if len(shares) > 1 else "")


def _share_joined(made: Mistakes) -> float:
    return made.joined / max(made.different, 1)


def _share_separated(made: Mistakes) -> float:
    return made.separated / max(made.alike, 1)


def _clusters(arrays: Mapping[str, Array]) -> str:
    if "clusters" not in arrays:
        return ""
    members = arrays["clusters"]
    found = f"{exact(len(members))} cluster{'s' if len(members) != 1 else ''}"
    found += ", some overlapping" if (members.sum(axis=0) > 1).any() else ""
    return found + (f"; in truth {len(np.unique(arrays[TRUTH]))}" if TRUTH in arrays else "")
