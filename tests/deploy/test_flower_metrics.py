"""The server's metrics, by Prometheus' conventions and by what its book says, and what is built on them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra fedbandits[deploy]")
pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

import promql_parser
import yaml
from flower_worlds import Deployed
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.channel import Gaussian, through
from fedbandits.cli import app
from fedbandits.contract.budget import Budget
from fedbandits.deploy import Status
from fedbandits.deploy.flower.operating.metrics_service import create_metrics_app
from fedbandits.deploy.flower.operating.server_metrics import PREFIX, page
from fedbandits.deploy.flower.post import Answer
from fedbandits.deploy.http.access import Token
from fedbandits.deploy.http.metrics import Meter

DOCS = Path(__file__).parents[2] / "docs" / "deploy"
LABELS = {"agent", "kind", "outcome", "direction", "state", "le", "path", "status"}
LABELS |= {"unit", "adjacency", "definition", "mechanism"}
TOKEN = "a-token-that-is-only-used-in-tests"


@pytest.fixture
def deployed(tmp_path):
    environment = fb.environments.Linear(clients=3, dim=3, arms=5)
    return Deployed(tmp_path, fb.algorithms.DisLinUCB(threshold=0.5), environment, 60)


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def samples(text):
    return {
        (sample.name.removeprefix(f"{PREFIX}_"), *sorted(sample.labels.values())): sample.value
        for family in families(text).values()
        for sample in family.samples
    }


def busy(deployed):
    """A federation in which everything has happened that is counted."""
    deployed.post.forged = lambda who, letter, answer: Answer(b"nonsense") if who == 2 else answer
    for step in range(8):
        deployed.live(step)
        deployed.coordinator.step()
    deployed.book.reject(None, None, "a stranger", "node")
    deployed.book.compare_clocks({0: -100.0})
    deployed.book.note(restarts=2, alive_at=1.0, supervised_at=1.0, serving_since=1.0)
    deployed.book.admit(0, "key", 0)


def test_they_say_what_the_book_says(deployed):
    busy(deployed)
    found, ledger = samples(page(deployed.where)), deployed.coordinator.ledger
    assert found["up",] == 1
    assert found["present_agents",] == 3
    assert found["known_agents",] == 1
    assert found["conversations_total", "completed"] == ledger.conversations > 0
    assert found["conversations_total", "resumed"] == found["conversations_total", "quarantined"] == 0
    assert found["conversation_duration_seconds_bucket", "+Inf"] == ledger.conversations
    assert found["conversation_duration_seconds_count",] == ledger.conversations
    assert 0 < found["conversation_duration_seconds_sum",] < 100
    for direction, told in (("up", ledger.up), ("down", ledger.down)):
        assert found["messages_total", direction] == told.messages
        assert found["message_bytes_total", direction] == told.bytes
    assert (
        found["rejections_total", "2", "reply"] == len([e for e in deployed.book.rejections() if e.identity == 2]) > 0
    )
    assert found["rejections_total", "node", "none"] == 1
    assert found["agent_clock_offset_seconds", "0"] == -100
    assert found["restarts_total",] == 2
    assert abs(found["last_ring_timestamp_seconds",] - found["agent_last_seen_timestamp_seconds", "1"]) < 10


def test_counters_go_on_when_the_server_is_started_again(deployed):
    busy(deployed)
    before = samples(page(deployed.where))
    deployed.restart()
    for step in range(8, 12):
        deployed.live(step)
        deployed.coordinator.step()
    after = samples(page(deployed.where))
    for name, value in before.items():
        if name[0].endswith(("_total", "_count", "_sum", "_bucket")):
            assert after[name] >= value
    assert after["conversations_total", "completed"] > before["conversations_total", "completed"]


def everything(deployed):
    busy(deployed)
    deployed.post.away = {1}
    budget = Budget("person", "replace", "fixed histories", "tree", 1.0, 1e-5, 0.5, math.inf, 3, 8)
    spoken = Status(*(2, 1, 1, 0, 0, 1), deployed.agents[0].synchronised_at, True, 0.5, 0.5, 1, 0.0, budget)
    noisy = replace(
        deployed.settings, algorithm=through(deployed.settings.algorithm, [Gaussian(arms=1.0, rewards=1.0)])
    )
    (deployed.where / "federation.json").write_text(noisy.text())
    meter = Meter()
    meter.took("/decisions", 200, 0.01)
    return families(page(deployed.where)) | families(meter.page(spoken))


def test_names_keep_to_the_conventions(deployed):
    for name, family in everything(deployed).items():
        assert re.fullmatch(r"fedbandits_(server|agent)_[a-z_]+", name)
        assert not re.search(r"milli|micro|minutes|hours|since|percent", name), "base units, and moments for ages"
        assert family.documentation
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            assert sample.labels.keys() <= LABELS
            assert re.fullmatch(r"[0-9]+|none", sample.labels.get("agent", "0")), "an index and nothing else"


@pytest.mark.parametrize("content", [None, b"no database at all" * 100], ids=["missing", "damaged"])
def test_a_book_that_cannot_be_read_is_a_metric_too(content, tmp_path):
    if content is not None:
        (tmp_path / "server.db").write_bytes(content)
    assert samples(page(tmp_path)) == {("up",): 0.0}


def test_the_service_lets_in_who_may_come_in(deployed):
    local = TestClient(create_metrics_app(deployed.where, None), base_url="http://127.0.0.1")
    assert local.get("/metrics").text.count(f"{PREFIX}_up 1.0") == 1
    assert local.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")
    assert local.get("/metrics", headers={"Host": "elsewhere"}).status_code == 403
    guarded = TestClient(create_metrics_app(deployed.where, Token(TOKEN)))
    assert guarded.get("/metrics").status_code == 401
    assert guarded.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/health").json() == {"status": "ok"}


def test_other_machines_need_a_token(tmp_path):
    shown = CliRunner().invoke(app, ["federation", "metrics", str(tmp_path), "--host", "0.0.0.0", "--port", "0"])
    assert shown.exit_code == 2
    assert "--token-file" in shown.stderr


# the dashboard and the alert rules


def dashboard():
    return json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))


def rules():
    return [rule for group in yaml.safe_load((DOCS / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def expressions():
    charts = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    return [target["expr"] for panel in charts for target in panel["targets"]] + [rule["expr"] for rule in rules()]


def selectors(expression):
    """All metrics in a PromQL expression, with the labels that they are chosen by."""
    found = re.findall(r"(fedbandits_[a-z_]+)(?:\{([^}]*)\})?", expression)
    return [(name, dict(re.findall(r'(\w+)\s*=~?\s*"([^"]*)"', labels))) for name, labels in found]


def test_expressions_are_promql_and_use_metrics_that_there_are(deployed):
    known = {sample.name: sample for family in everything(deployed).values() for sample in family.samples}
    # of what has not happened here there are no samples yet
    known |= dict.fromkeys([f"{PREFIX}_agent_undelivered_letters", f"{PREFIX}_quarantined_conversations"])
    for expression in expressions():
        promql_parser.parse(expression)
        assert selectors(expression), f"{expression} is about nothing of ours"
        for name, labels in selectors(expression):
            assert name in known, f"{name} is not exported"
            if known[name] is not None:
                assert labels.keys() <= known[name].labels.keys(), expression


def test_the_dashboard_is_what_grafana_takes():
    board = dashboard()
    assert board["schemaVersion"] >= 36
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert [item["type"] for item in board["templating"]["list"]] == ["datasource"]
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert panel["type"] in {"row", "stat", "timeseries"}
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert re.fullmatch("[A-Z]", target["refId"])


def test_alert_rules_are_what_prometheus_takes():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")
            for label in re.findall(r"\$labels\.(\w+)", text):
                assert label in rule["expr"] or label in {"instance", "agent"}


def test_every_alert_is_explained():
    told = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    for rule in rules():
        assert f"`{rule['alert']}`" in told
    for name in re.findall(r"`(fedbandits_[a-z_]+)`", told):
        assert any(name.startswith(prefix) for prefix in ("fedbandits_server_", "fedbandits_agent_"))
