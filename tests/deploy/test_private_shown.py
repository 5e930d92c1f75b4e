"""Where a budget is shown it is shown with what it means, and an infinite epsilon is neither hidden nor an error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs the extra 'deploy'")
pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from flower_worlds import Deployed
from private_agents import HORIZON, noisy, opened, play, upload
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.channel import Gaussian, Through
from fedbandits.cli import app
from fedbandits.contract.budget import Budget
from fedbandits.deploy import Agent
from fedbandits.deploy.flower.operating import operate
from fedbandits.deploy.flower.operating.server_metrics import page
from fedbandits.deploy.http.app import create_app
from fedbandits.deploy.http.configuration import Limits

MEANING = {"unit": "observation", "adjacency": "add-remove", "mechanism": "toeplitz"}


def lived(path: Path, **stage: Any) -> Agent:
    agent = opened(path, noisy(**stage))
    for turn in range(HORIZON // 2):
        play(agent, 1, seed=turn)
        upload(agent, f"c{turn}")
    return agent


def told_by_metrics(text: str) -> dict[Any, float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(("own", "strictly"), [("released", 1.0), ("fused", "infinite")])
def test_over_http(own, strictly, tmp_path):
    with lived(tmp_path / "agent.db", own=own) as agent:
        client = TestClient(create_app(agent, Limits(), None), base_url="http://127.0.0.1")
        answer = client.get("/status").raise_for_status().json()
        metrics = told_by_metrics(client.get("/metrics").raise_for_status().text)
        schema = client.get("/openapi.json").json()["components"]["schemas"]
    budget = answer["budget"]
    definition = "transcript" if own == "released" else "fixed histories"
    assert budget.items() >= (MEANING | {"definition": definition, "epsilon": 1.0, "releases": 5, "allowed": 5}).items()
    assert budget["spent"] == pytest.approx(1.0)
    assert budget["strictly"] == answer["spent"] == (pytest.approx(1.0) if strictly == 1.0 else strictly)
    assert budget.keys() == schema["Privacy"]["properties"].keys()
    known = {name: value for (name, *_), value in metrics.items() if "privacy" in name}
    assert known == {
        "fedbandits_agent_privacy_spent_epsilon": pytest.approx(1.0) if strictly == 1.0 else math.inf,
        "fedbandits_agent_privacy_budget_spent_epsilon": pytest.approx(1.0),
        "fedbandits_agent_privacy_budget_epsilon": 1.0,
        "fedbandits_agent_privacy_budget_delta": 1e-5,
        "fedbandits_agent_privacy_releases_total": 5,
        "fedbandits_agent_privacy_allowed_releases": 5,
        "fedbandits_agent_privacy_backups": 0,
        "fedbandits_agent_privacy_info": 1,
    }
    meaning = tuple(sorted((MEANING | {"definition": definition}).items()))
    assert ("fedbandits_agent_privacy_info", *meaning) in metrics


def test_who_was_forgotten_to_be_named_is_told_over_http(tmp_path):
    with opened(tmp_path / "agent.db", noisy(unit="person")) as agent:
        client = TestClient(create_app(agent, Limits(), None), base_url="http://127.0.0.1")
        refused = client.post("/decisions", json={"arms": np.eye(3).tolist()})
        assert refused.status_code == 422
        assert "protects persons" in refused.json()["error"]["message"]
        assert client.post("/decisions", json={"arms": np.eye(3).tolist(), "who": "a"}).status_code == 200
        assert client.get("/status").json()["budget"]["unit"] == "person"


@pytest.mark.parametrize(("own", "strictly"), [("released", 1.0), ("fused", "infinite")])
def test_on_the_command_line(own, strictly, tmp_path):
    lived(tmp_path / "agent.db", own=own).close()
    shown = CliRunner().invoke(app, ["agent", "status", str(tmp_path / "agent.db")], env={"COLUMNS": "400"})
    assert shown.exit_code == 0
    assert "epsilon 1 of 1 spent at delta 1e-05, 5 of 5 releases made; protects one observation" in shown.stdout
    assert ("epsilon is infinite from the first release" in shown.stdout) == (own == "fused")
    told = json.loads(CliRunner().invoke(app, ["agent", "status", str(tmp_path / "agent.db"), "--json"]).stdout)
    assert told["budget"].items() >= (MEANING | {"releases": 5, "allowed": 5, "copies": 0}).items()
    assert told["budget"]["strictly"] == told["spent"] == (pytest.approx(1.0) if strictly == 1.0 else strictly)


def test_by_the_federations_server(tmp_path):
    stage = Gaussian(epsilon=2.0, every=3)
    environment = fb.environments.LinearBounded(clients=3, dim=3, arms=5)
    deployed = Deployed(tmp_path, Through(fb.algorithms.DisLinUCB(), (stage,)), environment, 12)
    (tmp_path / "federation.json").write_text(deployed.settings.text())
    for step in range(12):
        deployed.live(step)
        deployed.coordinator.step()
    metrics = told_by_metrics(page(tmp_path).decode())
    for who, agent in enumerate(deployed.agents):
        uploads = metrics["fedbandits_server_agent_privacy_uploads_total", ("agent", str(who))]
        assert uploads == agent.status().budget.releases == 4
    assert metrics["fedbandits_server_privacy_budget_epsilon",] == 2.0
    assert metrics["fedbandits_server_privacy_allowed_releases",] == 4
    assert ("fedbandits_server_privacy_info", *sorted((MEANING | {"definition": "transcript"}).items())) in metrics
    told = operate.status(tmp_path)["budget_of_each_agent"]
    assert told == MEANING | {"definition": "transcript", "epsilon": 2.0, "delta": 1e-5, "allowed": 4}


def test_federations_without_a_budget_show_none(tmp_path):
    deployed = Deployed(tmp_path, fb.algorithms.DisLinUCB(), fb.environments.Linear(clients=2, dim=3, arms=4), 12)
    for settings in (None, deployed.settings.text(), "no settings at all"):
        if settings is not None:
            (tmp_path / "federation.json").write_text(settings)
        assert b"privacy" not in page(tmp_path)
        assert "budget_of_each_agent" not in operate.status(tmp_path)


def test_words_for_every_budget():
    """Unit, adjacency and definition are in whatever is shown, whichever they are."""
    for unit, words in {
        "observation": "one observation",
        "agent": "one agent contributes",
        "person": "one person",
    }.items():
        for adjacency in ("add-remove", "replace"):
            for definition, what in {"transcript": "choices included", "fixed histories": "what it uploads"}.items():
                told = str(Budget(unit, adjacency, definition, "tree", 1.5, 1e-6, 0.25, 0.25, 1, 8))  # type: ignore[arg-type]
                assert all(word in told for word in (words, f"({adjacency})", what, "0.25 of 1.5", "1e-06", "1 of 8"))
