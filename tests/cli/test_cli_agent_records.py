"""`fedbandits agent log`, `import`, `retire`, `migrate`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.deploy import Agent
from fedbandits.facts import Range


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["agent", *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with Agent.open(path, fb.algorithms.DisLinUCB(), features=["age", "new"], keep_shown=True, warm=False) as agent:
        decision = agent.decide({"call": [1.0, 0.0], "mail": [0.0, 1.0]}, who="Ann, née Bö")
        agent.reward(decision.id, 0.5)
        agent.decide([[1.0, 0.0]])
    return path


@pytest.fixture
def armed(tmp_path: Path) -> Path:
    path = tmp_path / "armed.db"
    with Agent.open(path, fb.algorithms.UCB1(), 2, facts=[Range(0.0, 1.0)], warm=False) as agent:
        agent.reward(agent.decide(["a", "b"]).id, 1.0)
    return path


def test_the_log_for_spreadsheets_and_for_programs(linear: Path) -> None:
    code, out, _ = invoke("log", str(linear), "--csv")
    first, second = csv.DictReader(io.StringIO(out))
    assert code == 0
    assert (first["who"], first["arm"], first["reward"], first["propensity"]) == ("Ann, née Bö", "call", "0.5", "1.0")
    assert (second["who"], second["arm"], second["reward"]) == ("", "0", "")
    assert "shown" not in first
    lines = [json.loads(line) for line in invoke("log", str(linear), "--json", "--shown")[1].splitlines()]
    assert lines[0]["names"] == ["call", "mail"]
    assert lines[0]["shown"] == [[1.0, 0.0], [0.0, 1.0]]
    assert lines[0]["chosen_by"] == "algorithm"
    assert lines[1]["reward"] is None
    with_arms = list(csv.DictReader(io.StringIO(invoke("log", "--db", str(linear), "--shown")[1])))
    assert json.loads(with_arms[1]["shown"]) == [[1.0, 0.0]]
    assert invoke("log", str(linear), "--csv", "--json")[0] == 2


def test_an_arm_that_nobody_has_tried_has_no_number_as_its_score(armed: Path) -> None:
    """Its index is infinite, which JSON does not know."""
    with Agent.open(armed, warm=False) as agent:
        agent.decide(["b"])
    for line in invoke("log", str(armed), "--json")[1].splitlines():
        assert json.loads(line, parse_constant=lambda name: pytest.fail(name))["score"] is None


def test_import(linear: Path, tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    history.write_text("age,new,reward\n1,0,1\n0,1,0\n")
    assert invoke("import", str(linear), str(history))[:2] == (0, "2 observations imported\n")
    code, _, err = invoke("import", str(linear), str(history))
    assert (code, "imported before" in err, err.count("\n")) == (1, True, 1)
    history.write_text("age,new,reward\n1,0,1\n0,one,0\n")
    code, _, err = invoke("import", str(linear), str(history))
    assert (code, "line 3: new must be a number" in err) == (1, True)
    code, _, err = invoke("import", str(linear), str(tmp_path / "missing.csv"))
    assert (code, "cannot be read" in err) == (2, True)


def test_retire(armed: Path) -> None:
    assert invoke("retire", str(armed), "a", "--drop")[0] == 0
    with Agent.open(armed, warm=False) as agent:
        assert agent.decide(["b", "c"]).arm in ("b", "c")
    code, _, err = invoke("retire", str(armed), "a")
    assert (code, "no arm is called 'a'" in err) == (1, True)


def test_migrate(linear: Path) -> None:
    code, out, err = invoke("migrate", str(linear), "--add-feature", "near")
    assert (code, out) == (0, "features: age, new, near\n")
    assert "agent.db.before is the file as it was" in err.replace("\n", "")
    with Agent.open(linear.with_name("agent.db.before"), warm=False) as before, Agent.open(linear, warm=False) as after:
        assert (before.settings.dim, after.settings.dim) == (2, 3)
    copy = str(linear.with_name("second.db"))
    assert invoke("migrate", str(linear), "--drop-feature", "age", "--copy", copy)[1] == "features: new, near\n"
    for words in ([], ["--add-feature", "x", "--drop-feature", "new"], ["--drop-feature", "nwe"]):
        code, _, err = invoke("migrate", str(linear), *words)
        assert (code, err.count("\n")) == (2, 1)


def test_migrate_says_where_scores_move(linear: Path) -> None:
    path = linear.with_name("loose.db")
    with Agent.open(path, fb.algorithms.DisLinUCB(width="loose"), features=["a"], warm=False) as agent:
        agent.reward(agent.decide([[1.0]]).id, 1.0)
    assert "widths of this algorithm depend" in invoke("migrate", str(path), "--add-feature", "b")[2].replace("\n", " ")
