"""Every algorithm of the catalogue has a page, which says what is written of it elsewhere and nothing else."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import re
import sys
from pathlib import Path

import pytest

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES
from fedbandits.environments import ENVIRONMENTS
from fedbandits.experiments import run_experiment, shipped_experiments
from fedbandits.findings.recorded import Recorded

EXTENSIONS = Path(__file__).parent.parent / "docs" / "_extensions"


@pytest.fixture(scope="module")
def made():
    sys.path.insert(0, str(EXTENSIONS))
    yield importlib.import_module("algorithm_pages")
    sys.path.remove(str(EXTENSIONS))
    for name in ("algorithm_pages", "examples"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def pages(made):
    return made.pages()


def test_there_is_one_for_each_and_one_for_all(pages):
    assert set(pages) == {f"algorithms/{name}.md" for name in ("index", *ALGORITHMS.importable())}
    for name in ALGORITHMS:
        assert f"]({name}.md)" in pages["algorithms/index.md"]


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_page_has_all_that_is_known(made, pages, name):
    kind, page = ALGORITHMS[name], pages[f"algorithms/{name}.md"]
    about, text = kind.about, page.replace("\\|", "|")
    for said in (about.talks, about.guarantee, about.source):
        assert f"| {said} |" in text
    assert f"| family | {made.titled(about.family)} |" in text
    for utterance in about.says:
        assert f"| `{utterance.kind}` | {utterance.direction} |" in text
        assert all(str(field) in text for field in utterance.fields)
    for item in dataclasses.fields(kind):
        assert f"| `{item.name}` | " in text
    assert kind.__doc__.splitlines()[0].split("(")[0].strip(" .") in text
    assert page.count("# ") >= 4


def test_costs_are_those_on_record(made, pages):
    assert set(made.all_costs()) <= set(ALGORITHMS)
    unknown = {name for name in ALGORITHMS.importable() if "Not measured yet" in pages[f"algorithms/{name}.md"]}
    assert unknown == set(ALGORITHMS.importable()) - set(made.all_costs())
    found, page = made.all_costs()["dislinucb"], pages["algorithms/dislinucb.md"]
    assert f"| at home | `linear`, {found['agents']} agents, d = 25, 25 arms; {found['turns']} turns each" in page
    assert f"| to the server, for each agent | {found['letters']['uplink']:g} messages, " in page
    assert "along links" not in page
    assert "graph `erdos-renyi`" in pages["algorithms/fed-ucb1.md"]
    assert "along links of the graph, for each agent | 480 messages, 960 scalars |" in pages["algorithms/fed-ucb1.md"]


def test_verdicts_are_those_on_record(made, monkeypatch, tmp_path):
    (tmp_path / "small.toml").write_text(
        'title = "Small"\nsource = "ours"\n[environment]\nname = "linear"\ndim = 2\narms = 3\n[run]\nhorizon = 20\n'
        'seeds = 3\n[algorithms.us]\nname = "dislinucb"\n[algorithms.me]\nname = "independent-linucb"\n'
        '[algorithms.dice]\nname = "random"\n[[claims]]\nkind = "less"\ntext = "learning helps"\nmetric = "regret"\n'
        'of = "me"\nthan = "dice"\n'
    )
    run_experiment(tmp_path / "small.toml", out=tmp_path / "small")
    monkeypatch.setattr(made, "shipped_experiments", lambda: {"small": tmp_path / "small.toml"})
    made.all_experiments.cache_clear()
    try:
        before = "\n".join(made.experiments("random", tmp_path))
        assert "Not on record." in before
        recorded = Recorded.of("small", tmp_path / "small")
        (tmp_path / "small.json").write_text(recorded.text())
        alone, together = ("\n".join(made.experiments(name, tmp_path)) for name in ("random", "dislinucb"))
    finally:
        made.all_experiments.cache_clear()
    (claim,) = recorded.claims
    assert f"- learning helps: {claim.verdict} ({claim.measured})" in alone
    assert "| 3 seeds | regret | messages | bytes |" in alone
    assert "as *us*." in together
    assert "learning helps" not in together, "a claim about others"


def test_what_annotations_allow(made):
    assert doctest.testmod(made).failed == 0


def test_what_is_recommended_exists():
    """Names in the page that says which algorithm to take: of parts, or of parameters of those."""
    page = re.sub(r"<!--.*?-->", "", (EXTENSIONS.parent / "choosing.md").read_text())
    words = re.findall(r"`([^`\n= ]+)`", page)
    named = {word.partition(":")[0] for word in words}
    parameters = {item.name for name in named & set(ALGORITHMS) for item in dataclasses.fields(ALGORITHMS[name])}
    assert named <= {*ALGORITHMS, *ENVIRONMENTS, *STAGES, *shipped_experiments(), *parameters}
    assert {"dislinucb", "hetofedbandit-e", "fedglb-newton", "neural-linear", "fed-ucb1"} <= named
