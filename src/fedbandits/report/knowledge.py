"""The section that shows, for agents on a network, who knows how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.portrait import EDGES, KNOWN, LEADERS, Portrait
from fedbandits.report.layout import positions
from fedbandits.report.networks import LEADER, MOST_LINKS, MOST_NODES, knowledge_picture, network_picture
from fedbandits.report.portraits import Drawn, title_of
from fedbandits.report.readable import exact, human
from fedbandits.report.scale import Scale
from fedbandits.report.section import Section, render

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_MOST_PICTURES = 24


def knowledge(results: Results) -> Section | None:
    """What each agent knows at the end under the first seed, on the graph it talks on, as a share of all samples."""
    cases = _cases(results)
    if not cases:
        return None
    scale = Scale.over(np.concatenate([case.percent for case in cases]))
    layouts: dict[tuple[int, bytes], FloatArray] = {}
    drawn = [_drawn(case, scale, layouts, at) for at, case in enumerate(cases)]
    legend = [(scale.ink(index), scale.told(index, "%")) for index in range(len(scale))]
    led = any(case.leaders.any() for case in cases)
    return Section(
        "knowledge",
        "Who knows how much",
        render("knowledge.html", networks=drawn, legend=legend, leader=LEADER if led else None),
    )


@dataclass(frozen=True, slots=True, eq=False)
class KnownCase:
    """An algorithm at one sweep point, under its first seed: `known` (n,) samples of `total`."""

    title: str
    known: FloatArray
    total: float
    edges: IntArray | None
    leaders: BoolArray
    medians: Sequence[float] = field(default_factory=list)
    """The median share of every seed."""

    @property
    def percent(self) -> FloatArray:
        """(n,) what each agent knows of all samples."""
        return 100 * self.known / max(self.total, 1.0)

    @property
    def drawable(self) -> bool:
        """Whether the network itself can be shown."""
        return self.edges is not None and len(self.known) <= MOST_NODES


def _cases(results: Results) -> list[KnownCase]:
    decisions = _decisions(results)
    found = [portrait for portrait in results.portraits if KNOWN in portrait.arrays]
    cases = []
    for title, group in groupby(found, key=title_of):
        own = list(group)
        arrays = own[0].arrays
        medians = [float(np.median(one.arrays[KNOWN])) / max(decisions[_key(one)], 1.0) for one in own]
        known = arrays[KNOWN]
        followed = np.unique(arrays[LEADERS]) if LEADERS in arrays else np.empty(0, dtype=np.int64)
        leaders = np.isin(np.arange(len(known)), followed)
        cases.append(KnownCase(title, known, decisions[_key(own[0])], arrays.get(EDGES), leaders, medians))
    return cases


def _decisions(results: Results) -> dict[tuple[Any, ...], float]:
    """How many samples were drawn in each run."""
    final = results.final()
    points = [
        tuple((name, str(row[name])) for name in results.sweep if row[name] == row[name]) for _, row in final.iterrows()
    ]
    rows = zip(final["algorithm"], points, final["seed"], final["decisions"], strict=True)
    return {(label, point, seed): float(count) for label, point, seed, count in rows}


def _key(portrait: Portrait) -> tuple[Any, ...]:
    return portrait.label, tuple((name, str(value)) for name, value in portrait.point.items()), portrait.seed


def _drawn(case: KnownCase, scale: Scale, layouts: dict[tuple[int, bytes], FloatArray], at: int) -> Drawn:
    facts = list(_facts(case))
    if at >= _MOST_PICTURES:
        return Drawn(case.title, None, facts, f"Not drawn: the page shows {_MOST_PICTURES} networks.")
    if not case.drawable:
        svg = knowledge_picture(case.percent, scale, f"network-{at}", f"How much the agents of {case.title} know")
        note = f"{exact(len(case.known))} agents with all their links are too many to be drawn one by one."
        return Drawn(case.title, svg, facts, note)
    assert case.edges is not None
    graph = (len(case.known), case.edges.tobytes())
    if graph not in layouts:
        layouts[graph] = positions(len(case.known), case.edges)
    title = f"Network of {case.title}"
    svg = network_picture(case.percent, case.edges, case.leaders, layouts[graph], scale, f"network-{at}", title)
    hidden = len(case.edges) > MOST_LINKS
    note = f"{exact(MOST_LINKS)} of {exact(len(case.edges))} links are drawn." if hidden else ""
    return Drawn(case.title, svg, facts, note)


def _facts(case: KnownCase) -> Iterator[str]:
    middle = float(np.median(case.known))
    seeds = f" (all seeds: {_share(float(np.mean(case.medians)))})" if len(case.medians) > 1 else ""
    yield f"half of the agents know at least {_told(case, middle)} of {exact(case.total)} samples{seeds}"
    yield f"least {_told(case, float(case.known.min()))}, most {_told(case, float(case.known.max()))}"
    if case.leaders.any():
        count = int(case.leaders.sum())
        middle = float(np.median(case.known[case.leaders]))
        yield f"{exact(count)} leader{'s' if count != 1 else ''}, half of them at least {_told(case, middle)}"


def _told(case: KnownCase, samples: float) -> str:
    shown = human(samples).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{shown} ({_share(samples / max(case.total, 1.0))})"


def _share(part: float) -> str:
    return human(100 * part, "%", 2).replace(" ", "\N{NO-BREAK SPACE}")
