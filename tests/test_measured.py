"""Pages that quote results are filled in from them, and say so where they cannot be."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from fedbandits.contract.errors import ConfigError
from fedbandits.experiments import load_experiment, run_experiment, shipped_experiments
from fedbandits.findings.recorded import Recorded
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

<!-- measured table tiny metric="regret;messages" columns=metric of="random;alone" at.clients=6 name.random=dice -->
<!-- /measured -->

<!-- measured table tiny metric=regret_per_client rows=label columns=number at.clients=6 at.threshold=2 name.dis=d -->
<!-- /measured -->

Alone <!-- measured value tiny metric=regret of=alone at.clients=6 -->?<!-- /measured -->, which is
<!-- measured value tiny metric=regret of=random per=alone at.clients=6 digits=2 -->?<!-- /measured --> times less.

<!-- measured picture tiny metric=regret_per_client x=threshold at.clients=6 file=images/tiny.png alt="Regret" -->
<!-- /measured -->

<!-- measured picture tiny metric=regret x=clients of="alone;random" file=images/n.png alt="Regret and n" -->
<!-- /measured -->

<!-- measured picture tiny metric=regret x=bytes lines=label at.clients=6 at.threshold=2 file=images/b.png alt="B" -->
<!-- /measured -->
"""


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    yield importlib.import_module("measured")
    for name in ("measured", "lines", "single_runs"):
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
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 0
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
    assert "|  | Regret | Messages sent |\n|---|---|---|\n| dice | " in text
    two = text.partition("| dice | ")[2].splitlines()
    assert two[0].endswith(" | 0 |")
    assert two[1].startswith("| alone | ")
    assert float(two[1].split("|")[2].split("±")[0]) == pytest.approx(regret["alone"], rel=0.02)
    assert "| number | 2 | 4 |\n|---|---|---|\n| d | " in text
    last = text.rpartition("| central | ")[2].partition("\n")[0]
    central = six[six["algorithm"].str.startswith("central")].groupby("algorithm")["each"].mean()
    shown = [float(cell.split("±")[0]) for cell in last.split("|")[:2]]
    assert shown == pytest.approx([central["central 2"], central["central 4"]], rel=0.02)
    assert "![Regret](images/tiny.png)" in text
    for name in ("tiny.png", "n.png", "b.png"):
        assert (page.parent / "images" / name).read_bytes().startswith(b"\x89PNG")


def test_a_page_that_is_filled_in_stays_as_it_is(measured, results, page):
    words, kept = (
        [str(page), "--results", str(results), "--records", str(results / "records")],
        [part for part in PAGE.split("\n\n") if "n.png" in part],
    )
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
        ("verdicts huge -->", "huge is not on record; run `fedbandits run huge`"),
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
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 2
    assert error in capsys.readouterr().err
    assert page.read_text() == before


def test_what_something_costs_can_be_an_axis(measured, results, tmp_path):
    """Lines are in the order of what they cost; who pays nothing has a level."""
    page = tmp_path / "page.md"
    held = Results.load(results / "tiny")
    options = {"metric": "regret", "at.clients": "6", "at.threshold": "2"}
    asked = measured.Asked(["tiny"], options, results, page)
    found = measured._against(asked, Recorded.of("tiny", results / "tiny"), "bytes", "label")
    final = held.final()
    rows = final[(final["clients"] == 6) & (final["threshold"].isna() | (final["threshold"] == 2))]
    expected = rows.groupby("algorithm")[["bytes", "regret"]].mean()
    for row in found.itertuples():
        assert row.mean == pytest.approx(expected["regret"][row.algorithm], rel=1e-4)
        if expected["bytes"][row.algorithm]:
            assert row.bytes == pytest.approx(expected["bytes"][row.algorithm], rel=1e-4)
        else:
            assert np.isnan(row.bytes)
            assert row.algorithm in ("alone", "random")


def test_marks_have_to_be_closed(measured, results, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- measured verdicts tiny -->\n<!-- measured verdicts tiny -->\n<!-- /measured -->\n")
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 2
    assert "not closed" in capsys.readouterr().err


def test_the_best_of_all_settings_that_were_tried(measured, results, tmp_path):
    path = tmp_path / "page.md"
    path.write_text("<!-- measured best tiny metric=regret -->\n<!-- /measured -->\n")
    assert measured.main([str(path), "--results", str(results), "--records", str(tmp_path)]) == 0
    final = Results.load(results / "tiny").final()
    means = final[final["algorithm"] == "dis"].groupby(["clients", "threshold"])["regret"].mean()
    lines = path.read_text().splitlines()[1:-1]
    assert lines[:2] == ["|  | clients | settings tried | best | Regret |", "|---|---|---|---|---|"]
    assert len(lines) == 4  # of the others there is one setting each
    for line, clients in zip(lines[2:], (2, 6), strict=True):
        best = means[clients].idxmin()
        assert line.startswith(f"| dis | {clients} | 2 | `threshold` {best:g} | ")
    recorded = Recorded.of("tiny", results / "tiny")
    np.testing.assert_allclose(recorded.best("regret")["mean"], [means[2].min(), means[6].min()], rtol=1e-5)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("of=dis at.clients=6 at.threshold=2 tell=mean", lambda runs: f"{runs['dis'].mean():.3g}"),
        ("of=dis at.clients=6 at.threshold=2 tell=most digits=2", lambda runs: f"{runs['dis'].max():.2g}"),
        ("of=alone at.clients=6 at.threshold=2 seeds=2 tell=median", lambda runs: f"{runs['alone'][:2].median():.3g}"),
        ("of=alone at.clients=6 tell=count", lambda runs: "3"),
        ("of=alone at.clients=6 tell=above above=0", lambda runs: "3"),
        ("of=alone at.clients=6 than=random tell=less", lambda runs: f"{(runs['alone'] < runs['random']).sum()}"),
        ("of=alone at.clients=6 than=random tell=more", lambda runs: f"{(runs['alone'] > runs['random']).sum()}"),
        ("of=alone at.clients=6 than=alone tell=equal", lambda runs: "3"),
    ],
)
def test_single_runs_can_be_spoken_of(measured, results, tmp_path, mark, expected):
    page = tmp_path / "page.md"
    page.write_text(f"<!-- measured runs tiny metric=regret_per_client {mark} -->?<!-- /measured -->\n")
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 0
    final = Results.load(results / "tiny").final()
    chosen = final[(final["clients"] == 6) & (final["threshold"].isna() | (final["threshold"] == 2))]
    runs = {name: rows.set_index("seed")["regret"] / 6 for name, rows in chosen.groupby("algorithm")}
    said = page.read_text().partition("-->")[2].partition("<!--")[0]
    assert said == (expected(runs) if "." not in expected(runs) else f"{float(expected(runs)):g}")


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        ("of=dis at.clients=6 tell=mean", "several runs of dis for each seed; say which by at.COLUMN=VALUE"),
        ("of=dis at.clients=6 at.threshold=2 seeds=4 tell=mean", "of 4 runs of dis only 3 are kept"),
        ("of=dis at.clients=6 at.threshold=2 tell=least", "tell=least is none of count, mean, median, most, more,"),
        ("of=dis at.clients=7 tell=mean", "no run of tiny is what a mark asks for"),
        ("of=this at.clients=6 tell=mean", "no algorithm this"),
        ("of=alone than=them at.clients=6 tell=less", "no algorithm them"),
        ("of=alone at.clients=6 tell=less", "tell=less needs than=LABEL"),
        ("of=alone at.clients=6 tell=above", "tell=above needs above=NUMBER"),
    ],
)
def test_of_single_runs_only_what_is_there_can_be_told(measured, results, tmp_path, capsys, mark, error):
    page = tmp_path / "page.md"
    page.write_text(f"<!-- measured runs tiny metric=regret {mark} -->?<!-- /measured -->\n")
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 2
    assert error in capsys.readouterr().err


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
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 0
    lines = page.read_text().splitlines()
    assert lines[1] == "|  | alone |"
    for line, name in ((lines[3], "tiny"), (lines[4], "other")):
        final = Results.load(results / name).final()
        mean = final[(final["algorithm"] == "alone") & (final["clients"] == 6)]["regret"].mean()
        title, cell = (part.strip() for part in line.strip("|").split("|"))
        assert title == {"tiny": "tiny", "other": "Another"}[name]
        assert float(cell.split("±")[0]) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(
    ("labels", "heads"),
    [(["a 0.1", "a 10", "b 1"], "0.1 | 1 | 10"), (["a 10", "a 0.1", "b 1"], "10 | 1 | 0.1"), (["a 2", "alone"], "2")],
)
def test_numbers_of_labels_are_in_order(measured, tmp_path, labels, heads):
    """They rise or fall as the first says, whoever has them."""
    cases = [{"algorithm": label, "point": {}, "figures": {"regret": [1.0, 0.5]}} for label in labels]
    recorded = Recorded("made", "", "", "", 2, [], [], cases)
    options = {"metric": "regret", "rows": "label", "columns": "number"}
    asked = measured.Asked(["made"], options, tmp_path, tmp_path / "page.md", loaded={"made": recorded})
    assert measured.table(asked).splitlines()[0] == f"| number | {heads} |"


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"seeds": 1}, "demo has 1 of 5 seeds"), ({"claims": []}, "of other claims than its file"), ({}, "")],
)
def test_results_that_are_not_those_of_the_file_are_not_put_on_record(
    measured, monkeypatch, tmp_path, capsys, changes, said
):
    held = Recorded.read(DOCS / "verdicts" / "demo.json")
    monkeypatch.setattr(measured.Recorded, "of", lambda *_: replace(held, **changes))
    (tmp_path / "demo").mkdir()
    found, _ = measured.differing_records(tmp_path, tmp_path / "records", ["demo"])
    assert list(found) == ([] if said else [tmp_path / "records" / "demo.json"])
    assert said in capsys.readouterr().err


def test_who_looks_again_at_what_was_undecided_has_to_say_so(measured, monkeypatch, tmp_path, capsys):
    held = Recorded.read(DOCS / "verdicts" / "demo.json")
    (tmp_path / "demo").mkdir()
    records = tmp_path / "records"
    records.mkdir()

    def told(verdict, **details):
        first, *others = held.claims
        return replace(held, claims=[replace(first, verdict=verdict, details=first.details | details), *others])

    (records / "demo.json").write_text(told("undecided", seeds=3).text())
    for now, said in (
        (told("holds", seeds=5, looks=1), "is looked at again under 5; say so in its file, by looks = 2"),
        (told("holds", seeds=5, looks=2), ""),
        (told("undecided", seeds=3, looks=1), ""),
    ):
        monkeypatch.setattr(measured.Recorded, "of", lambda *_, now=now: now)
        found, _ = measured.differing_records(tmp_path, records, ["demo"])
        assert said in capsys.readouterr().err
        assert bool(said) == (not found and now.claims[0].verdict == "holds")
    (records / "demo.json").write_text(told("fails", seeds=3).text())
    monkeypatch.setattr(measured.Recorded, "of", lambda *_: told("fails", seeds=5, looks=1))
    assert list(measured.differing_records(tmp_path, records, ["demo"])[0]) == [records / "demo.json"]


def test_what_is_not_on_record_keeps_what_it_says(measured, results, tmp_path):
    page = tmp_path / "page.md"
    kept = "<!-- measured table huge metric=regret -->\n| of old |\n<!-- /measured -->\n"
    text = f"{kept}<!-- measured unrecorded -->\n<!-- /measured -->"
    page.write_text(text)
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 0
    assert page.read_text() == text.replace("unrecorded -->\n", "unrecorded -->\n`huge`.\n")


def test_verdicts_and_claims_are_kept_line_by_line(measured, results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- measured verdicts huge tiny name.tiny=ours -->\n| `huge` (old) | 9 | 1 holds |\n<!-- /measured -->\n"
        "<!-- measured claims tiny huge only=fails -->\n- `huge`: of old\n- `tiny`: gone\n<!-- /measured -->\n"
    )
    assert measured.main([str(page), "--results", str(results), "--records", str(results / "records")]) == 0
    text = page.read_text()
    assert "|---|---|---|\n| `huge` (old) | 9 | 1 holds |\n| `tiny` (ours) | 3 | 1 holds, 1 fails |\n" in text
    assert "- `tiny`: learning hurts (" in text
    assert "\n- `huge`: of old\n" in text
    assert "gone" not in text


def test_a_page_is_filled_in_where_the_results_are_no_more(measured, results, page, tmp_path):
    records, elsewhere = tmp_path / "records", ["--results", str(tmp_path / "nowhere")]
    assert measured.main([str(page), "--results", str(results), "--records", str(records)]) == 0
    text = page.read_text()
    page.write_text(PAGE)
    assert measured.main([str(page), *elsewhere, "--records", str(records)]) == 0
    assert page.read_text() == text
    changed = (records / "tiny.json").read_text().replace('"holds"', '"undecided"')
    (records / "tiny.json").write_text(changed)
    assert measured.main([str(page), *elsewhere, "--records", str(records), "--check"]) == 1
    assert measured.main([str(page), "--results", str(results), "--records", str(records), "--check"]) == 1


def test_who_has_no_such_figure_is_left_out():
    """Only some algorithms have a budget, and of these only some a finite one."""
    cases = [
        {"algorithm": "private", "point": {}, "clients": 2, "figures": {"regret": [3.0, 1.0], "epsilon": [0.5, 0.0]}},
        {"algorithm": "open", "point": {}, "clients": 2, "figures": {"regret": [1.0, 0.5]}},
    ]
    recorded = Recorded("made", "", "", "", 2, [], [], cases)
    assert list(recorded.figures("regret")["algorithm"]) == ["private", "open"]
    assert list(recorded.figures("epsilon")["algorithm"]) == ["private"]
    with pytest.raises(ConfigError, match="made has no bytes on record"):
        recorded.figures("bytes")


def test_what_is_divided_by_something_that_differs_between_seeds_is_left_out():
    figures = {"regret": [6.0, 1.0]}
    cases = [
        {"algorithm": "one", "point": {}, "lower_bound": 2.0, "figures": figures},
        {"algorithm": "other", "point": {}, "lower_bound": None, "figures": figures},
    ]
    recorded = Recorded("made", "", "", "", 2, [], [], cases)
    assert list(recorded.figures("regret_per_lower_bound")["mean"]) == [3.0]
    with pytest.raises(ConfigError, match="made has no regret_per_lower_bound on record: lower_bound differs between"):
        replace(recorded, cases=cases[1:]).figures("regret_per_lower_bound")


def test_a_record_says_what_the_results_say(results):
    held, recorded = Results.load(results / "tiny"), Recorded.of("tiny", results / "tiny")
    path = results / "one.json"
    path.write_text(recorded.text())
    assert Recorded.read(path) == recorded
    assert path.stat().st_size < 10_000
    summary = held.summary().set_index(held.key)
    for metric, by in (("regret", 1), ("messages", 1), ("regret_per_client", "clients")):
        for _, row in recorded.figures(metric).iterrows():
            (of,) = [
                at for at in summary.index if all(a == b or (a != a and b != b) for a, b in zip(at, row, strict=False))
            ]
            divisor = 1 if by == 1 else dict(zip(held.key, of, strict=True))["clients"]
            base = metric.removesuffix("_per_client")
            assert row["mean"] == pytest.approx(summary.loc[[of], base].iloc[0] / divisor, rel=1e-5)
            assert row["error"] == pytest.approx(summary.loc[[of], f"{base}_se"].iloc[0] / divisor, rel=1e-5)
            if base == "regret":
                runs = held.final().set_index(held.key).loc[[of], "regret"]
                assert row["median"] == pytest.approx(runs.median() / divisor, rel=1e-5)
            else:
                assert np.isnan(row["median"])
    assert [(claim.text, claim.verdict, claim.measured) for claim in recorded.claims] == [
        (claim.text, claim.verdict, claim.measured) for claim in held.claims
    ]


DOCS = EXTENSIONS.parent
RECORDS = sorted((DOCS / "verdicts").glob("*.json"))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_pages_say_what_is_on_record(measured, page):
    assert measured.filled(page, DOCS / "verdicts")[0] == page.read_text()


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_are_those_of_the_experiments_that_are_shipped(path):
    """Whoever changes an experiment's claims or algorithms has to run it again."""
    recorded, shipped = Recorded.read(path), shipped_experiments()
    if path.stem in shipped:
        experiment = load_experiment(shipped[path.stem])
    else:
        experiment = load_experiment(shipped[path.stem.removesuffix("-full")]).large
    assert recorded.name == path.stem
    assert [claim.text for claim in recorded.claims] == [claim.text for claim in experiment.claims]
    assert recorded.algorithms == list(experiment.algorithms)
    assert recorded.sweep == experiment.columns
    assert recorded.seeds >= experiment.run.seeds
    for case in recorded.cases:
        assert recorded.seeds_of(case) >= experiment.seeds_of(case["algorithm"], case["point"])
