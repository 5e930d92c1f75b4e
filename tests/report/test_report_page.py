from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
from markupsafe import Markup

import fedbandits as fb
from conformance.gossip import GossipLinUCB
from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.claims import Verdict
from fedbandits.findings.results import Results
from fedbandits.graphs.network import Given
from fedbandits.report import Section, page, write_report
from fedbandits.report.plots import Series, sweep
from fedbandits.report.sections import SECTIONS
from fedbandits.report.units import definitions
from fedbandits.simulation.metrics import METRICS
from fedbandits.simulation.options import RunOptions
from fedbandits.studies.compare import comparison
from fedbandits.studies.study import Case, Study, run_study

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """Collects elements and text, and insists that tags are nested properly."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data.strip())

    def parts(self, part: str) -> Counter[str]:
        return Counter(
            str(attrs["data-series"])
            for _, attrs in self.elements
            if attrs.get("class") == part and "data-series" in attrs
        )


def test_stages_have_rows_of_their_own_in_the_settings(results: Results) -> None:
    through = [{"name": "gaussian", "epsilon": 0.125}, {"name": "quantise", "bits": 12}]
    dis = {**results.settings["algorithms"]["dis"], "through": through}
    algorithms = {**results.settings["algorithms"], "dis": dis}
    reader = Reader(page(replace(results, settings={**results.settings, "algorithms": algorithms})))
    for title in ("algorithms · dis", "algorithms · dis · through gaussian", "algorithms · dis · through quantise"):
        assert reader.text.count(title) == 1
    assert "through =" not in reader.text
    assert reader.text.index("0.125") > reader.text.index("algorithms · dis · through gaussian")


def test_everything_is_there(results: Results) -> None:
    reader = Reader(page(results))
    sections = [attrs["id"] for tag, attrs in reader.elements if tag == "section"]
    assert sections == ["table", "pictures", "settings", "reproduce", "units"]
    for name in ("alone", "dis", "central"):
        assert reader.text.count(name) >= 5  # table, legend, and the labels of the pictures
    assert reader.parts("curve") == {"0": 3, "1": 3, "2": 3}
    assert reader.parts("band") == {"0": 3, "1": 3, "2": 3}
    assert set(reader.parts("point")) == {"0", "1", "2"}


def test_one_seed_has_no_bands(results: Results) -> None:
    frame = results.frame
    reader = Reader(page(replace(results, frame=frame[frame["seed"] == 0])))
    assert reader.parts("band") == {}
    assert reader.parts("curve") == {"0": 3, "1": 3, "2": 3}
    assert any("One seed" in text for text in reader.text)


def test_nothing_is_fetched(results: Results, swept: Results) -> None:
    for html in (page(results), page(swept)):
        assert not re.search(r"https?://", html)
        assert not re.search(r"@import|@font-face", html)
        for found in re.findall(r"url\(([^)]*)\)", html):
            assert found.startswith("#")
        for tag, attrs in Reader(html).elements:
            for key in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                assert (attrs.get(key) or "#").startswith(("#", "data:,")), (tag, key)


def test_ids_are_unique_and_references_resolve(results: Results) -> None:
    html = page(results)
    ids = Counter(attrs["id"] for _, attrs in Reader(html).elements if "id" in attrs)
    assert max(ids.values()) == 1
    references = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert references
    assert references <= set(ids)


def test_colours_follow_the_mode(results: Results) -> None:
    html = page(results)
    assert "prefers-color-scheme: dark" in html
    assert not re.search(r"#5e7[123][0-9a-f]{2}", html)  # no stand-in is left
    svg = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    bare = re.sub(r"var\([^)]*\)|url\([^)]*\)|href=\"[^\"]*\"|id=\"[^\"]*\"", "", svg)
    assert not re.search(r"#[0-9a-f]{6}", bare)


def test_malicious_text_is_only_text() -> None:
    evil = "<script>alert(1)</script>"
    algorithms = {evil: fb.algorithms.Random(), '"><img src=x>$x_1$': fb.algorithms.CentralLinUCB()}
    bad = comparison(algorithms, fb.environments.Linear(clients=2, dim=2, arms=3), horizon=10, seeds=2)
    bad = replace(bad, title=evil, source=evil, description=evil, claims=[Verdict(evil, "fails", evil)])
    html = page(bad)
    reader = Reader(html)
    assert "<script>alert" not in html
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert not [tag for tag, _ in reader.elements if tag == "img"]
    assert evil in "".join(reader.text)


def test_claims_come_first_with_verdict_and_figures(swept: Results) -> None:
    reader = Reader(page(swept))
    assert next(attrs["id"] for tag, attrs in reader.elements if tag == "section") == "claims"
    verdicts = [
        attrs["class"] for tag, attrs in reader.elements if tag == "li" and "claim" in (attrs.get("class") or "")
    ]
    assert verdicts == [f"claim {claim.verdict}" for claim in swept.claims]
    assert swept.claims[1].verdict == "fails"
    for claim in swept.claims:
        assert claim.text in reader.text
        assert claim.measured in reader.text


def test_a_sweep_is_drawn_against_its_column(swept: Results) -> None:
    reader = Reader(page(swept))
    pictures = [attrs["data-picture"] for tag, attrs in reader.elements if tag == "figure"]
    assert pictures[:2] == ["regret_per_client-by-clients", "regret-by-clients"]
    assert "regret-against-bytes" in pictures


def test_silent_algorithms_need_no_communication_pictures() -> None:
    env = fb.environments.Linear(clients=2, dim=2, arms=3)
    silent = comparison({"one": fb.algorithms.Random(), "two": fb.algorithms.IndependentLinUCB()}, env, 10, 2)
    pictures = [attrs["data-picture"] for tag, attrs in Reader(page(silent)).elements if tag == "figure"]
    assert pictures == ["regret-curves"]


def test_unfinished_results_say_so(results: Results) -> None:
    assert "Unfinished: 4 runs" in page(replace(results, missing=4))
    assert "Unfinished" not in page(results)


def test_units_are_those_of_the_ledger() -> None:
    text = " ".join(definitions())
    for term in ("message", "signal", "scalars", "bytes", "synchronisation"):
        assert f"<dfn>{term}</dfn>" in text


def test_a_family_can_add_a_section(results: Results) -> None:
    def graph(_: Results) -> Section | None:
        return Section("graph", "Who talks to whom", Markup("<p>a picture</p>"))

    def nothing(_: Results) -> Section | None:
        return None

    html = page(results, [*SECTIONS, graph, nothing])
    assert '<section id="graph">' in html
    assert 'href="#graph"' in html


def test_writing_is_all_or_nothing(results: Results, tmp_path: Path) -> None:
    path = write_report(results, tmp_path / "deep" / "report.html")
    before = path.read_text(encoding="utf-8")

    def broken(_: Results) -> Section | None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        write_report(results, path, [broken])
    assert path.read_text(encoding="utf-8") == before
    assert [item.name for item in path.parent.iterdir()] == ["report.html"]


def test_no_runs_no_report(results: Results, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run"):
        write_report(replace(results, frame=results.frame.iloc[:0]), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_crowd_is_told_apart_by_algorithm() -> None:
    """Names of so many curves would not fit beside them; the trade-off then joins each algorithm's parameters."""
    crowd = {f"d-{at}": fb.algorithms.DisLinUCB(threshold=0.1 * (1 + at)) for at in range(26)}
    environment = fb.environments.Linear(clients=3, dim=2, arms=3)
    html = page(comparison(crowd, environment, horizon=30, seeds=1, points=5))
    assert "are joined, in the order given" in html
    named = Reader(html).parts("label")
    assert list(named) == ["26"], "one name, that of the algorithm, which no entry of the legend switches"


SMALL = fb.environments.Linear(clients=4, dim=2, arms=3)


@pytest.mark.parametrize(
    ("algorithms", "caption"),
    [
        ({"dis": fb.algorithms.DisLinUCB(threshold=0.1)}, "Both directions together."),
        ({"gossip": GossipLinUCB()}, "Between clients, once for every link crossed."),
        (
            {"dis": fb.algorithms.DisLinUCB(threshold=0.1), "gossip": GossipLinUCB()},
            "To the server, to clients, and between clients once for every link crossed, all together.",
        ),
    ],
    ids=["server", "peers", "both"],
)
def test_captions_say_whose_talk_is_counted(algorithms: dict, caption: str) -> None:
    results = comparison(algorithms, SMALL, 30, 2, network=nx.cycle_graph(4) if "gossip" in algorithms else None)
    reader = Reader(page(results))
    captions = [text for text in reader.text if caption in text]
    assert len(captions) == 2
    assert any("All clients together." in text for text in reader.text)
    note = next(text for text in reader.text if text.startswith("Means over seeds"))
    assert ("↔ between clients" in note) == ("gossip" in algorithms)
    assert ("↑ to the server" in note) == ("dis" in algorithms)


@pytest.fixture(scope="module")
def by_network() -> Results:
    graphs = {"ring": nx.cycle_graph(4), "star": nx.star_graph(3), "barabasi-albert": nx.path_graph(4)}
    algorithms = {"gossip": GossipLinUCB(), "alone": fb.algorithms.IndependentLinUCB()}
    cases = [
        Case(label, algorithm, SMALL, 30, {"network": name}, RunOptions(network=Given.of(graph)))
        for label, algorithm in algorithms.items()
        for name, graph in graphs.items()
    ]
    return run_study(Study(title="t", cases=cases, points=3, identity={}, sweep=["network"]), seeds=2)


def test_a_sweep_over_names_stands_side_by_side_and_is_not_joined(by_network: Results) -> None:
    html = page(by_network)
    reader = Reader(html)
    pictures = [attrs["data-picture"] for tag, attrs in reader.elements if tag == "figure"]
    assert pictures == ["regret-by-network", "bytes-by-network", "messages-by-network", "regret-against-bytes"]
    drawn = re.findall(r"<figure.*?</figure>", html, flags=re.DOTALL)
    for name in ("ring", "star", "barabasi-", "albert"):
        assert f">{name}</" in drawn[0]
    assert "joined in order" not in html
    # marks of both algorithms at every name: six different places
    marks = re.findall(r'<use [^>]*x="([\d.]+)"[^>]*stroke: var\(--surface', drawn[0])
    assert len(marks) == len(set(marks)) == 6


@pytest.mark.parametrize(
    ("values", "joined"), [([0.0, 0.2, 0.4], True), ([1, float("inf")], True), (["a", "b"], False)]
)
def test_numbers_are_joined_and_names_are_not(by_network: Results, values: list, joined: bool) -> None:
    points = pd.DataFrame(
        {"loss": values, "name": "one", "line": "one", "regret": 2.0 + pd.RangeIndex(len(values)), "regret_error": 0.1}
    )
    svg = sweep(points, "loss", METRICS["regret"], Series(["one"]), caption="").svg
    marks = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*stroke: var\(--surface', svg)
    assert len(marks) == len(values)
    assert (f'd="M {"  L ".join(map(" ".join, marks))} ' in svg) == joined


def test_long_lists_of_links_are_told_by_their_number() -> None:
    ring = nx.cycle_graph(4)
    html = page(comparison({"gossip": GossipLinUCB()}, SMALL, 5, 1, network=ring))
    assert "[[0, 1], [0, 3], [1, 2], [2, 3]]" in html
    crowd = nx.complete_graph(30)
    results = comparison({"gossip": GossipLinUCB()}, replace(SMALL, clients=30), 5, 1, network=crowd)
    assert "435 entries" in page(results)
