"""Decisions over HTTP: features by name, arms by name alone, several at once, persons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
pytest.importorskip("httpx", reason="needs httpx")
pytest.importorskip("jsonschema_rs", reason="comes with schemathesis")


import jsonschema_rs
from starlette.testclient import TestClient

import fedbandits as fb
from fedbandits.deploy import Agent
from fedbandits.deploy.http.app import create_app
from fedbandits.deploy.http.configuration import Limits, configuration
from fedbandits.facts import Range

LIMITS = Limits(most_decisions=3, most_arms=4)
LINUCB = fb.algorithms.DisLinUCB(threshold=2.0)
Speaking = Callable[..., tuple[Agent, TestClient]]


@pytest.fixture
def speaking(tmp_path: Path) -> Iterator[Speaking]:
    with ExitStack() as stack:

        def open_(algorithm: Any = LINUCB, **settings: Any) -> tuple[Agent, TestClient]:
            agent = Agent.open(tmp_path / "agent.db", algorithm, durable=False, warm=False, **settings)
            stack.enter_context(agent)
            app = create_app(agent, LIMITS, None)
            return agent, TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

        yield open_


def test_score_propensity_and_person(speaking: Speaking) -> None:
    agent, client = speaking(dim=2, explore=0.5)
    found = client.post("/decisions", json={"arms": [[1, 0], [0, 1]], "who": "Ann"}).json()
    assert found["propensity"] in (0.25, 0.75)
    assert found["score"] > 0
    assert next(agent.log()).who == "Ann"
    for who in ("", "x" * 201, 7):
        assert client.post("/decisions", json={"arms": [[1, 0]], "who": who}).status_code == 422


def test_several_at_once_or_none(speaking: Speaking) -> None:
    agent, client = speaking(dim=2)
    wanted = [{"arms": {"a": [1, 0], "b": [0, 1]}, "who": "Ann"}, {"arms": [[0, 1]]}]
    found = client.post("/decisions", json={"decisions": wanted}).json()["decisions"]
    assert [item["arm"] for item in found] == ["a", 0]
    assert agent.reward(found[1]["id"], 1.0)
    refused = client.post("/decisions", json={"decisions": [*wanted, {"arms": [[0, 1, 2]]}]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_input")
    assert "decision 2:" in refused.json()["error"]["message"]
    many = client.post("/decisions", json={"decisions": wanted * 2})
    assert "at most 3 at once, got 4" in many.json()["error"]["message"]
    assert client.post("/decisions", json={"decisions": []}).json() == {"decisions": []}
    assert agent.status().decisions == 2


def test_features_by_name(speaking: Speaking) -> None:
    _, client = speaking(features=["age", "new"])
    assert client.post("/decisions", json={"arms": {"a": {"new": 1, "age": 0.5}}}).json()["arm"] == "a"
    for arms, said in (
        ({"a": {"agee": 1, "new": 1}}, "did you mean 'age'"),
        ({"a": {"age": 1}}, "lacks 1 of 2 features: 'new'"),
        ({"a": {"age": 1, "new": 2e6}}, "features lie between"),
        ({"a": {"age": 1, "new": True}}, "arms.a.new: must be a valid number"),
        ({"a": "far"}, "arms.a: must be a list of numbers, or an object"),
    ):
        answer = client.post("/decisions", json={"arms": arms})
        assert answer.status_code == 422
        assert said in answer.json()["error"]["message"]


def test_sparse_features_by_place(speaking: Speaking) -> None:
    agent, client = speaking(dim=300, missing="zero")
    assert client.post("/decisions", json={"arms": [{"299": 1}, {}]}).status_code == 200
    assert next(agent.log(shown=True)).shown[0][299] == 1.0
    assert client.post("/decisions", json={"arms": [{"300": 1}]}).status_code == 422


def test_arms_by_name_alone(speaking: Speaking) -> None:
    agent, client = speaking(fb.algorithms.UCB1(), dim=2, facts=[Range(0.0, 1.0)])
    found = client.post("/decisions", json={"arms": ["mail", "call"]}).json()
    assert found["arm"] == "mail"
    agent.reward(found["id"], 1.0)
    found = client.post("/decisions", json={"arms": ["call"]}).json()
    assert (found["arm"], found["index"], found["score"]) == ("call", 0, None)  # never tried: infinite
    full = client.post("/decisions", json={"arms": ["visit"]})
    assert (full.status_code, full.json()["error"]["code"]) == (422, "invalid_input")
    assert client.post("/decisions", json={"arms": ["mail", 7]}).status_code == 422


@pytest.mark.parametrize(
    ("settings", "good", "bad"),
    [
        ({"features": ["a", "b"]}, [[[1, 0]], [{"a": 1, "b": 0}], {"x": {"a": 1, "b": 0}}], [[{"a": 1}], ["x"], [[1]]]),
        ({"features": ["a", "b"], "missing": "zero"}, [[{"a": 1}], [{}]], [[{"c": 1}]]),
        ({"dim": 2, "missing": "zero"}, [[{"1": 1}], {"x": {}}], [[{"2": 1}]]),
        ({"dim": 2}, [[[1, 0]]], [[{"0": 1, "1": 1}, []], ["x"]]),
        ({"arm_names": ["x", "y"]}, [["x"], ["y", "x"], [[1, 0]]], [["z"], ["x", "x"], []]),
    ],
)
def test_the_schema_is_that_of_this_agent(speaking: Speaking, settings: Any, good: list[Any], bad: list[Any]) -> None:
    _, client = speaking(**settings)
    schema = client.get("/openapi.json").json()["components"]["schemas"]["Choice"]["properties"]["arms"]
    for arms in good:
        assert jsonschema_rs.is_valid(schema, arms)
        assert client.post("/decisions", json={"arms": arms}).status_code == 200
    for arms in bad:
        assert not jsonschema_rs.is_valid(schema, arms)
        assert client.post("/decisions", json={"arms": arms}).status_code == 422


def test_settings_in_a_file() -> None:
    agent = {
        "features": ["age", "new"],
        "explore": 0.05,
        "keep_shown": True,
        "missing": "zero",
        "algorithm": "dislinucb",
    }
    found = configuration({"agent": agent}).settings
    assert {name: found[name] for name in agent if name != "algorithm"} == {
        name: value for name, value in agent.items() if name != "algorithm"
    }
