"""Pages that quote results are filled in from them, and say so where they cannot be."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from fedbandits.experiments import run_experiment
from fedbandits.findings.results import Results

EXTENSIONS = Path(__file__).parent.parent / "docs" / "_extensions"
EXPERIMENT = """
title = "Tiny"
source = "ours"
[environment]
name = "linear"
dim = 2
arms = 3
[run]
horizon = 20
seeds = 3
[algorithms.dis]
name = "dislinucb"
[algorithms.alone]
name = "independent-linucb"
[algorithms.random]
name = "random"
[algorithms."central 2"]
name = "central-linucb"
ridge = 2.0
[algorithms."central 4"]
name = "central-linucb"
ridge = 4.0
[sweep]
"environment.clients" = [2, 6]
"algorithms.dis.threshold" = [0.5, 2.0]
[[claims]]
kind = "less"
text = "learning helps"
metric = "regret"
of = "alone"
than = "random"
at = { clients = 6 }
[[claims]]
kind = "less"
text = "learning hurts"
metric = "regret"
of = "random"
than = "alone"
at = { clients = 6 }
"""
PAGE = """# A page of `<!-- measured verdicts huge -->` to `<!-- /measured -->`

<!-- measured verdicts tiny -->
what was here before
<!-- /measured -->

<!-- measured claims tiny -->
<!-- /measured -->

<!-- measured claims tiny only=holds -->
<!-- /measured -->

<!-- measured table tiny metric=regret_per_client columns=threshold of="dis;alone" at.clients=6 name.dis="*others*" -->
<!-- /measured -->

<!-- measured table tiny metric=regret columns=algorithm of="alone;random" at.clients=6 -->
<!-- /measured -->

<!-- measured table tiny metric=regret_per_client rows=label columns=number at.clients=6 at.threshold=2 name.dis=d -->
<!-- /measured -->

Alone <!-- measured value tiny metric=regret of=alone at.clients=6 -->?<!-- /measured -->, which is
<!-- measured value tiny metric=regret of=random per=alone at.clients=6 digits=2 -->?<!-- /measured --> times less.

<!-- measured picture tiny metric=regret_per_client x=threshold at.clients=6 file=images/tiny.png alt="Regret" -->
<!-- /measured -->

<!-- measured picture tiny metric=regret x=clients of="alone;random" file=images/n.png alt="Regret and n" -->
<!-- /measured -->
"""


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    yield importlib.import_module("measured")
    for name in ("measured", "lines"):
        sys.modules.pop(name)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("results")
    (directory / "tiny.toml").write_text(EXPERIMENT)
    run_experiment(directory / "tiny.toml", out=directory / "tiny")
    return directory


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_marks_are_filled_in_from_results(measured, results, page):
    assert measured.main([str(page), "--results", str(results)]) == 0
    text = page.read_text()
    held = Results.load(results / "tiny")
    final = held.final()
    assert "what was here" not in text
    assert text.startswith(PAGE.partition("\n")[0])
    assert "| `tiny` | 3 | 1 holds, 1 fails |" in text
    assert f"- `tiny`: learning hurts: **fails** ({held.claims[1].measured})" in text
    assert f"only=holds -->\n- `tiny`: learning helps ({held.claims[0].measured})\n<!-- /measured -->" in text
    six = final[final["clients"] == 6].assign(each=lambda rows: rows["regret"] / 6)
    means = six.groupby(["algorithm", "threshold"], dropna=False)["each"].mean()
    assert "| threshold | 0.5 | 2 |\n|---|---|---|\n| *others* | " in text
    row = next(line for line in text.splitlines() if line.startswith("| *others*"))
    shown = [float(cell.split("±")[0]) for cell in row.split("|")[2:4]]
    assert shown == pytest.approx([means["dis", 0.5], means["dis", 2.0]], rel=0.02)
    alone = next(line for line in text.splitlines() if line.startswith("| alone"))
    assert len({*(cell.strip() for cell in alone.split("|")[2:4])}) == 1
    regret = six.groupby("algorithm")["regret"].mean()
    alone, ratio = f"{regret['alone']:.3g}", f"{regret['random'] / regret['alone']:.2g}"
    assert f"of=alone at.clients=6 -->{float(alone):g}<!--" in text
    assert f"digits=2 -->{float(ratio):g}<!--" in text
    assert "|  | alone | random |\n|---|---|---|\n| Regret | " in text
    assert "| number | 2 | 4 |\n|---|---|---|\n| d | " in text
    last = text.rpartition("| central | ")[2].partition("\n")[0]
    central = six[six["algorithm"].str.startswith("central")].groupby("algorithm")["each"].mean()
    shown = [float(cell.split("±")[0]) for cell in last.split("|")[:2]]
    assert shown == pytest.approx([central["central 2"], central["central 4"]], rel=0.02)
    assert "![Regret](images/tiny.png)" in text
    for name in ("tiny.png", "n.png"):
        assert (page.parent / "images" / name).read_bytes().startswith(b"\x89PNG")


def test_a_page_that_is_filled_in_stays_as_it_is(measured, results, page):
    words, kept = [str(page), "--results", str(results)], [part for part in PAGE.split("\n\n") if "n.png" in part]
    page.write_text("\n\n".join(["# A page", *kept]))
    before = page.read_text()
    assert measured.main([*words, "--check"]) == 1
    assert page.read_text() == before
    assert not (page.parent / "images").exists()
    measured.main(words)
    text, picture = page.read_text(), (page.parent / "images" / "n.png").read_bytes()
    assert text != before
    assert measured.main([*words, "--check"]) == 0
    measured.main(words)
    assert page.read_text() == text
    assert (page.parent / "images" / "n.png").read_bytes() == picture


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        ("verdicts huge -->", "there are no results of huge; run `fedbandits run huge`"),
        ("verdict tiny -->", "there is no 'verdict'; known are: verdicts, claims"),
        ("table tiny metric=regret -->", "lacks columns="),
        ("table tiny metric=regrets columns=clients -->", "there is no metric 'regrets'"),
        (
            "table tiny metric=regret columns=cliants -->",
            "'cliants' is none of algorithm, clients, threshold, label, number",
        ),
        ("table tiny metric=regret columns=clients -->", "several runs for each algorithm, clients; say which by at."),
        ("value tiny metric=regret of=alone at.clients=7 -->", "no run of tiny is what a mark asks for"),
        ("value tiny metric=regret of=aline at.clients=6 -->", "no algorithm aline"),
        ("claims tiny only=failing -->", "only=failing is none of holds, fails, undecided"),
        ("value tiny tiny metric=regret of=alone -->", "one experiment is needed"),
    ],
)
def test_what_cannot_be_filled_in_is_told_and_nothing_is_written(measured, results, tmp_path, capsys, mark, error):
    page = tmp_path / "page.md"
    page.write_text(f"# A\n<!-- measured {mark}\n<!-- /measured -->\n")
    before = page.read_text()
    assert measured.main([str(page), "--results", str(results)]) == 2
    assert error in capsys.readouterr().err
    assert page.read_text() == before


def test_marks_have_to_be_closed(measured, results, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- measured verdicts tiny -->\n<!-- measured verdicts tiny -->\n<!-- /measured -->\n")
    assert measured.main([str(page), "--results", str(results)]) == 2
    assert "not closed" in capsys.readouterr().err


def test_names_keep_apart_and_near(measured):
    lines = sys.modules["lines"]
    assert lines.spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert lines.spread([0.3, 0.3], 0.1) == pytest.approx([0.25, 0.35])
    rng = np.random.default_rng(0)
    for _ in range(20):
        places = np.sort(rng.uniform(size=6))
        found = np.array(lines.spread(places, 0.12))
        assert (np.diff(found) >= 0.12 - 1e-12).all()
        best = minimize(
            lambda guess, places=places: ((guess - places) ** 2).sum(),
            found,
            constraints={"type": "ineq", "fun": lambda guess: np.diff(guess) - 0.12},
        )
        assert ((found - places) ** 2).sum() <= best.fun + 1e-6


def test_a_table_of_several_experiments_has_a_row_for_each(measured, results, tmp_path):
    (results / "other.toml").write_text(EXPERIMENT.replace("dim = 2", "dim = 3"))
    run_experiment(results / "other.toml", out=results / "other")
    page = tmp_path / "several.md"
    page.write_text(
        "<!-- measured table tiny other metric=regret columns=algorithm of=alone at.clients=6 name.other=Another -->\n"
        "<!-- /measured -->\n"
    )
    assert measured.main([str(page), "--results", str(results)]) == 0
    lines = page.read_text().splitlines()
    assert lines[1] == "|  | alone |"
    for line, name in ((lines[3], "tiny"), (lines[4], "other")):
        final = Results.load(results / name).final()
        mean = final[(final["algorithm"] == "alone") & (final["clients"] == 6)]["regret"].mean()
        title, cell = (part.strip() for part in line.strip("|").split("|"))
        assert title == {"tiny": "tiny", "other": "Another"}[name]
        assert float(cell.split("±")[0]) == pytest.approx(mean, rel=0.02)
