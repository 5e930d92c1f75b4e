"""Budgets of privacy in reports: with what they mean, and infinite where they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.channel import Gaussian, Through
from fedbandits.cli.app import app
from fedbandits.cli.show import present
from fedbandits.findings.results import Results
from fedbandits.report.budgets import budgets, budgets_of
from fedbandits.report.page import page
from fedbandits.report.plain import plain_report
from fedbandits.studies.compare import comparison


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    inner, out = fb.algorithms.DisLinUCB(), tmp_path_factory.mktemp("compared") / "out"
    algorithms = {
        "alone": fb.algorithms.IndependentLinUCB(),
        "strict": Through(inner, (Gaussian(uploads=3, first=2),)),
        "fused": Through(inner, (Gaussian(uploads=3, first=2, own="fused", adjacency="replace", epsilon=2.0),)),
    }
    environment = fb.environments.LinearBounded(clients=3, dim=3, arms=4)
    return comparison(algorithms, environment, horizon=30, seeds=2, out=out), out


def test_budgets_survive_being_kept(private: tuple[Results, Path]) -> None:
    results, out = private
    assert budgets_of(Results.load(out)) == budgets_of(results)
    found = budgets_of(results)
    assert found.keys() == {"strict", "fused"}
    assert (found["strict"].releases, found["strict"].allowed) == (3, 3)
    assert found["strict"].spent == found["strict"].strictly == pytest.approx(1.0)
    assert found["fused"].spent == pytest.approx(2.0)


def test_the_page_says_what_a_budget_means(private: tuple[Results, Path]) -> None:
    text = page(private[0])
    section = text[text.index('id="privacy"') :]
    for words in ("add-remove", "replace", "transcript", "fixed histories", "3 of 3", "1e-05", "∞"):
        assert words in section
    assert "epsilon is infinite from the first release" in section


def test_programs_are_told(private: tuple[Results, Path]) -> None:
    told = plain_report(private[0])["budgets"]
    assert told["fused"]["strictly"] == "infinite"
    assert (
        told["strict"].items() >= {"adjacency": "add-remove", "definition": "transcript", "unit": "observation"}.items()
    )


def test_a_terminal_is_told(private: tuple[Results, Path], capsys: pytest.CaptureFixture[str]) -> None:
    present(private[0], None, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    spent = "strict: epsilon 1 of 1 spent at delta 1e-05, 3 of 3 releases made; protects one observation (add-remove)"
    assert spent in shown
    assert "epsilon is infinite from the first release" in shown
    told = json.loads(CliRunner().invoke(app, ["report", str(private[1]), "--json"]).stdout)
    assert told["budgets"]["fused"]["adjacency"] == "replace"


def test_without_a_budget_there_is_no_section(results: Results) -> None:
    assert budgets(results) is None
    assert plain_report(results)["budgets"] == {}
    assert 'id="privacy"' not in page(replace(results, portraits=[]))
