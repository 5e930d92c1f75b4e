"""Who knows how much: agents in the colours of what they know, facts that can be checked by hand, limits that hold."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.portrait import EDGES, KNOWN, LEADERS, OMITTED, Portrait, links
from fedbandits.findings.results import Results
from fedbandits.report import page
from fedbandits.report.knowledge import knowledge
from fedbandits.report.networks import LEADER, MOST_LINKS, MOST_NODES, knowledge_picture, network_picture
from fedbandits.report.scale import Scale
from fedbandits.studies.compare import comparison
from fedbandits.studies.study import Case, Study, run_study

ENV = fb.environments.Linear(clients=4, dim=2, arms=3)
STAR = nx.star_graph(3)
HORIZON = 50  # of four agents: 200 samples


def told(body: str) -> str:
    return re.sub(r"\s+", " ", body.replace("\N{NO-BREAK SPACE}", " "))


def fills(svg: str) -> Counter[str]:
    """How many dots there are of each colour of the scale."""
    return Counter(re.findall(r"<use [^>]*fill: var\(--(scale-\d)", svg))


@pytest.fixture(scope="module")
def networked() -> Results:
    results = comparison({"one": fb.algorithms.Random(), "two": fb.algorithms.Random()}, ENV, HORIZON, seeds=2)
    shown = [
        Portrait("one", {}, 0, {EDGES: links(STAR), KNOWN: np.array([200.0, 100.0, 100.0, 50.0])}),
        Portrait("one", {}, 1, {EDGES: links(STAR), KNOWN: np.array([200.0, 100.0, 60.0, 50.0])}),
        Portrait("two", {}, 0, {EDGES: links(STAR), KNOWN: np.full(4, 200.0), LEADERS: np.zeros(4, dtype=np.int64)}),
    ]
    return replace(results, portraits=shown)


def test_each_algorithm_has_a_picture_of_its_first_seed_and_facts(networked: Results) -> None:
    section = knowledge(networked)
    assert section is not None
    assert section.title == "Who knows how much"
    body = told(section.body)
    assert re.findall(r'aria-label="([^"]*)"', body) == ["Network of one", "Network of two"]
    # medians 100 and 80 of 200 under the two seeds
    assert "half of the agents know at least 100 (50 %) of 200 samples (all seeds: 45 %)" in body
    assert "least 50 (25 %), most 200 (100 %)" in body
    assert "half of the agents know at least 200 (100 %) of 200 samples<br>" in body
    assert "1 leader, half of them at least 200 (100 %)" in body
    html = page(networked)
    assert html.index('id="pictures"') < html.index('id="knowledge"') < html.index('id="settings"')


def test_colours_are_shared_and_the_legend_names_them(networked: Results) -> None:
    body = told(knowledge(networked).body)  # type: ignore[union-attr]
    scale = Scale.over(np.array([25.0, 50.0, 100.0]))
    for index in range(len(scale)):
        assert scale.told(index, "%") in body
    one, two = re.findall(r"<svg.*?</svg>", body)
    inks = {value: scale.ink(int(scale.classes(np.array([value]))[0])).name for value in (25.0, 50.0, 100.0)}
    assert fills(one) == {inks[100.0]: 1, inks[50.0]: 2, inks[25.0]: 1}
    assert fills(two) == {inks[100.0]: 4}
    assert one.count(f"--{LEADER.name}") == 0
    assert re.findall(rf"<use [^>]*stroke: var\(--{LEADER.name}", two)
    assert "leader</li>" in body


def test_the_same_graph_has_the_same_places(networked: Results) -> None:
    one, two = re.findall(r"<svg.*?</svg>", told(knowledge(networked).body))  # type: ignore[union-attr]
    spots = [set(re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)) for svg in (one, two)]
    assert len(spots[0]) == 4
    assert spots[0] == spots[1]


def test_ids_are_unique_and_no_stand_in_is_left(networked: Results) -> None:
    html = page(networked)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert not re.search(r"#5e7[123][0-9a-f]{2}", html)


def test_links_are_drawn_up_to_a_number() -> None:
    places = np.random.default_rng(0).random((80, 2))
    scale = Scale((0.0, 1.0))
    for graph, drawn in ((nx.cycle_graph(80), 80), (nx.complete_graph(80), MOST_LINKS)):
        edges = links(graph)
        svg = network_picture(np.ones(80), edges, np.zeros(80, dtype=bool), places, scale, "k", "t")
        path = re.search(r'<path d="([^"]*)"[^>]*style="fill: none; opacity', svg)
        assert path is not None
        assert path[1].count("M") == drawn
    nobody = network_picture(np.ones(80), links(nx.empty_graph(80)), np.zeros(80, dtype=bool), places, scale, "k", "t")
    assert sum(fills(nobody).values()) == 80


def test_hidden_links_are_mentioned(networked: Results) -> None:
    crowd = nx.complete_graph(80)
    shown = Portrait("one", {}, 0, {EDGES: links(crowd), KNOWN: np.arange(1.0, 81.0)})
    section = knowledge(replace(networked, portraits=[shown]))
    assert section is not None
    assert f"2,000 of {80 * 79 // 2:,} links are drawn." in section.body


@pytest.mark.parametrize(
    "arrays",
    [
        {EDGES: links(nx.cycle_graph(MOST_NODES + 1)), KNOWN: np.arange(MOST_NODES + 1.0)},
        {KNOWN: np.arange(MOST_NODES + 1.0), OMITTED: np.array([EDGES])},
    ],
    ids=["many agents", "links not kept"],
)
def test_of_too_many_agents_the_distribution_is_shown(networked: Results, arrays: dict[str, np.ndarray]) -> None:
    section = knowledge(replace(networked, portraits=[Portrait("one", {}, 0, arrays)]))
    assert section is not None
    assert "601 agents with all their links are too many to be drawn one by one." in section.body
    assert 'aria-label="How much the agents of one know"' in section.body
    assert "half of the agents know at least 300" in told(section.body)


def test_bars_count_agents() -> None:
    known = np.array([0.5, 1.5, 1.5, 9.0, 10.0, 99.0])
    scale = Scale((0.0, 1.0, 10.0, 100.0))
    svg = knowledge_picture(known, scale, "k", "t")
    paths = re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--scale', svg)
    heights = np.array([np.ptp([float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", path)]) for path in paths])
    counts = heights / heights[heights > 0].min()
    assert len(paths) == 4 * 3
    # 0.5 is half of the first class; 1.5 twice at the beginning of the second, 9 at its end; 10 begins the third
    assert counts.round().astype(int).tolist() == [0, 0, 1, 0, 2, 0, 0, 1, 1, 0, 0, 1]
    one = knowledge_picture(np.full(7, 5.0), Scale.over(np.full(7, 5.0)), "k", "t")
    assert "scale-" in one


def test_more_pictures_than_a_page_holds_are_left_to_their_facts() -> None:
    cases = [Case("a", fb.algorithms.Random(), ENV, 5, {"life": at}) for at in range(26)]
    results = run_study(Study(title="t", cases=cases, points=1, identity={}, sweep=["life"]), seeds=1)
    arrays = {EDGES: links(STAR), KNOWN: np.arange(1.0, 5.0)}
    section = knowledge(replace(results, portraits=[Portrait("a", {"life": at}, 0, arrays) for at in range(26)]))
    assert section is not None
    assert section.body.count("<svg") == 24
    assert section.body.count("Not drawn: the page shows 24 networks.") == 2
    assert "a at life=25" in section.body


def test_nobody_on_a_network_no_section(results: Results) -> None:
    assert knowledge(results) is None
