"""What a report says, for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.app import app
from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.published import Beside
from fedbandits.findings.results import Results
from fedbandits.report.plain import plain_report
from fedbandits.report.summary import summarise
from fedbandits.studies.compare import comparison


def test_everything_is_there(swept: Results) -> None:
    beside = Beside("dis", "regret", {"clients": 2}, 12.5, "table 1", 10.0, 1.0, 3)
    told = plain_report(replace(swept, published=[beside], missing=2))
    assert told["title"] == "A sweep"
    assert told["missing"] == 2
    assert [(claim["text"], claim["verdict"]) for claim in told["claims"]] == [
        (claim.text, claim.verdict) for claim in swept.claims
    ]
    assert told["claims"][0]["details"]["exponent"]["seeds"] == 3
    assert told["published"][0]["value"] == 12.5
    assert told["published"][0]["mean"] == 10.0
    rows = summarise(swept)
    assert [row["clients"] for row in told["summary"]] == [1, 2, 4]
    assert [row["regret"] for row in told["summary"]] == rows["regret"].tolist()
    assert told["settings"]["environment"]["name"] == "linear"
    assert told["remarks"] == []


def test_the_command_is_told_once(results: Results) -> None:
    told = plain_report(replace(results, settings={**results.settings, "command": "fedbandits run x"}))
    assert told["command"] == "fedbandits run x"
    assert "command" not in told["settings"]
    assert str(plain_report(results)["command"]).startswith("fedbandits compare -a alone=independent-linucb")


def test_nothing_finished_nothing_told(results: Results) -> None:
    with pytest.raises(ConfigError, match="no finished run"):
        plain_report(replace(results, frame=results.frame.iloc[:0]))


def test_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    environment = fb.environments.Linear(clients=2, dim=2, arms=3)
    comparison({"dis": fb.algorithms.DisLinUCB()}, environment, horizon=10, seeds=2, out=out)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    def report(*words: str) -> dict:
        result = CliRunner().invoke(app, ["report", str(out), "--json", *words])
        assert result.exit_code == 0
        return dict(json.loads(result.stdout, parse_constant=refuse))

    told = report()
    assert told["summary"][0]["algorithm"] == "dis"
    assert (told["directory"], told["report"], told["missing"]) == (str(out), None, 0)
    assert not (out / "report.html").exists()
    page = tmp_path / "page.html"
    assert report("--out", str(page))["report"] == str(page)
    assert page.exists()
