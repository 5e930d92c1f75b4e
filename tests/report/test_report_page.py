from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

import fedbandits as fb
from fedbandits.catalogue import ConfigError
from fedbandits.claims import Verdict
from fedbandits.compare import comparison
from fedbandits.report import Section, page, write_report
from fedbandits.report.sections import SECTIONS
from fedbandits.report.units import definitions
from fedbandits.results import Results

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
    assert not re.search(r"#5e7[12][0-9a-f]{2}", html)  # no stand-in is left
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
