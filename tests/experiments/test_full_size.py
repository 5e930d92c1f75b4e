"""The table [full]: the same experiment at another size, checked like the file itself and kept apart from it."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app, cards
from fedbandits.contract.catalogue import ConfigError
from fedbandits.experiments import load_experiment, run_experiment, shipped_experiments
from fedbandits.findings.results import Results

SMALL = """
title = "t"
source = "s"
[environment]
name = "linear"
dim = 2
arms = 3
[run]
horizon = 10
seeds = 2
[algorithms."dis 0.5"]
name = "dislinucb"
threshold = 0.5
[algorithms.alone]
name = "independent-linucb"
[sweep]
"environment.clients" = [1, 2]
[[claims]]
kind = "less"
text = "talking helps"
metric = "regret"
of = "dis 0.5"
than = "alone"
at = { clients = 2 }
"""
FULL = """
[full]
description = "as printed"
"run.horizon" = 40
"environment.dim" = 3
"sweep.environment.clients" = [2, 5]
"algorithms.dis 0.5.threshold" = 4.0
"algorithms.alone.ridge" = 2.0
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return load_experiment(path)

    return loaded


def test_what_full_does_not_name_stays(load):
    small = load(SMALL + FULL)
    full = small.enlarged()
    assert (full.title, full.source, full.description) == ("t (full size)", "s", "as printed")
    assert full.full is None
    assert (full.run.horizon, full.run.seeds) == (40, 2)
    assert [(case.label, case.environment.clients, case.environment.dim) for case in full.cases] == [
        ("dis 0.5", 2, 3),
        ("dis 0.5", 5, 3),
        ("alone", 2, 3),
        ("alone", 5, 3),
    ]
    assert {(case.environment.arms, case.horizon) for case in full.cases} == {(3, 40)}
    assert full.cases[0].algorithm.threshold == 4.0
    assert full.cases[2].algorithm.ridge == 2.0
    assert full.claims == small.claims
    assert [(case.environment.clients, case.environment.dim, case.horizon) for case in small.cases[:2]] == [
        (1, 2, 10),
        (2, 2, 10),
    ]
    assert [case.algorithm for case in small.cases] == [case.algorithm for case in load(SMALL).cases]


def test_points_and_claims_are_replaced_as_lists(load):
    points = SMALL.replace('[sweep]\n"environment.clients" = [1, 2]', '[[points]]\n"environment.clients" = 2')
    lists = '[[full.points]]\n"environment.clients" = 3\n"environment.noise" = 0.5\n[[full.claims]]\nkind = "between"\n'
    full = load(points + lists + 'text = "x"\nmetric = "regret"\nof = "alone"\nlow = 0.0\n').enlarged()
    assert [dict(case.point) for case in full.cases] == 2 * [{"clients": 3, "noise": 0.5}]
    assert [claim.text for claim in full.claims] == ["x"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[full]\n", "full: dictionary should have at least 1 item"),
        ('[full]\n"run.horizn" = 5\n', "full: run.horizn: extra inputs are not permitted"),
        ('[full]\n"run.horizon" = 0\n', "full: run.horizon: must be greater than or equal to 1 (got 0)"),
        ('[full]\n"environment.dims" = 5\n', "full: environment: linear has no parameter 'dims'; did you mean 'dim'?"),
        ('[full]\n"environment.name" = "gap"\n', "full: cannot replace 'environment.name'; possible are run.SETTING"),
        ('[full]\n"algorithms.alone.name" = "random"\n', "full: cannot replace 'algorithms.alone.name'"),
        ('[full]\n"horizon" = 5\n', "full: cannot replace 'horizon'; possible are"),
        ('[full]\n"title" = "u"\n', "full: cannot replace 'title'"),
        (
            '[full]\n"algorithms.alnoe.ridge" = 5\n',
            "full: 'algorithms.alnoe.ridge': no algorithm 'alnoe' here; did you mean 'alone'?",
        ),
        ('[full]\n"algorithms.alone.rigde" = 5\n', "full: algorithms.alone: independent-linucb has no parameter"),
        (
            '[full]\n"environment.clients" = 5\n',
            "full: 'environment.clients' is swept over; replace its values by \"sweep.environment.clients\" = [...]",
        ),
        ('[full]\n"sweep.environment.clients" = 5\n', "full: sweep.environment.clients: must be a valid list"),
        ('[full]\n"sweep.run.seeds" = [5]\n', "full: sweep: cannot sweep 'run.seeds'"),
        ('[full]\n"network.ttl" = 5\n', "full: network.name: field required"),
    ],
)
def test_errors_name_file_and_path(load, text, error):
    with pytest.raises(ConfigError, match="(?s)^mine.toml: " + re.escape(error)):
        load(SMALL + text)


def test_one_size_only_is_an_error_that_says_so(load, tmp_path):
    with pytest.raises(ConfigError, match=r"full: 't' has one size only; give its file a table \[full\]"):
        run_experiment(load(SMALL), full=True)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "mine.toml"), "--full", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "has one size only" in done.stderr
    assert not (tmp_path / "out").exists()


def test_both_sizes_are_run_and_kept_apart(load, tmp_path, monkeypatch):
    load(SMALL + FULL)
    monkeypatch.chdir(tmp_path)
    for size in ([], ["--full"]):
        done = CliRunner().invoke(app, ["run", "mine.toml", "--jobs", "1", "--json", *size])
        assert done.exit_code == 0, done.stderr
        page = Path(json.loads(done.stdout)["report"]).read_text(encoding="utf-8")
        assert " ".join(["fedbandits run mine.toml", *size, "--seeds 2"]) in page
    small, full = (Results.load(tmp_path / "results" / name) for name in ("mine", "mine-full"))
    assert (small.title, full.title) == ("t", "t (full size)")
    assert set(small.final()["step"]) == {10}
    assert set(full.final()["step"]) == {40}
    assert set(full.final()["clients"]) == {2, 5}
    monkeypatch.setattr("fedbandits.experiments.shipped_experiments", lambda: {"mine": tmp_path / "mine.toml"})
    monkeypatch.setattr("fedbandits.experiments.files.shipped_experiments", lambda: {"mine": tmp_path / "mine.toml"})
    for name, words in (("mine", "run mine --seeds 2"), ("mine-full", "run mine --full --seeds 2")):
        done = CliRunner().invoke(app, ["report", f"results/{name}", "--json"])
        assert json.loads(done.stdout)["command"] == f"fedbandits {words}"
    again = run_experiment("mine.toml", full=True, out=tmp_path / "results" / "mine-full")
    assert again.frame.equals(full.frame)
    with pytest.raises(ConfigError, match="holds results of other settings"):
        run_experiment("mine.toml", full=True, out=tmp_path / "results" / "mine")


def test_the_command_line_tells_which_have_a_full_size(load, tmp_path, monkeypatch):
    load(SMALL + FULL)
    shipped = {"demo": shipped_experiments()["demo"], "mine": tmp_path / "mine.toml"}
    monkeypatch.setattr("fedbandits.experiments.files.shipped_experiments", lambda: shipped)
    monkeypatch.setitem(cards._KINDS, "experiments", (lambda: shipped, cards._KINDS["experiments"][1]))
    listed = CliRunner().invoke(app, ["list", "experiments"]).stdout
    assert "Also at full size, by fedbandits run NAME --full: mine" in listed
    detail = CliRunner().invoke(app, ["list", "experiments", "mine"]).stdout
    assert "run.horizon=40" in detail
    [entry] = json.loads(CliRunner().invoke(app, ["list", "experiments", "demo", "--json"]).stdout)
    assert entry["full"] == {}
    assert "--full" in CliRunner().invoke(app, ["run", "--help"]).stdout
