"""The endpoints, one request at a time: what is counted, what is refused, and in which words."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pydantic_core
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")
pytest.importorskip("httpx", reason="needs httpx")

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import fedbandits as fb
from fedbandits.deploy import Agent, ClosedError, CorruptError, DiskFullError, LockedError
from fedbandits.deploy.http.access import Token
from fedbandits.deploy.http.app import create_app
from fedbandits.deploy.http.body import parsed
from fedbandits.deploy.http.configuration import Limits
from fedbandits.deploy.http.refusals import STATUS, RefusedError
from fedbandits.facts import Episodes, Range

ARMS = {"reminder": [1.0, 0.2, 0.0], "call": [1.0, 0.0, 0.7]}
TOKEN = "a-token-that-is-only-used-in-tests"
LIMITS = Limits(largest_body=10_000, most_arms=5, most_rewards=20)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(tmp_path: Path, clock: Clock) -> Iterator[Agent]:
    algorithm = fb.algorithms.DisLinUCB(threshold=2.0)
    with Agent.open(
        tmp_path / "secret-place.db",
        algorithm,
        dim=3,
        facts=[Range(-5.0, 5.0)],
        expire_after=100,
        durable=False,
        clock=clock,
    ) as opened:
        yield opened


@pytest.fixture
def client(agent: Agent) -> TestClient:
    return speaking(agent)


def speaking(agent: Agent, token: str | None = TOKEN, **headers: str) -> TestClient:
    app = create_app(agent, LIMITS, None if token is None else Token(token))
    given = headers if token is None else {"Authorization": f"Bearer {token}"} | headers
    return TestClient(app, base_url="http://localhost", headers=given, raise_server_exceptions=False)


def code_of(response: Any) -> str:
    """The code of a refusal, which comes with its status, and with nothing else."""
    content = response.json()
    assert content.keys() == {"error"}
    assert content["error"].keys() == {"code", "message"}
    assert content["error"]["message"]
    assert response.status_code == STATUS[content["error"]["code"]]
    return str(content["error"]["code"])


def post(client: TestClient, path: str, text: str | bytes) -> Any:
    return client.post(path, content=text, headers={"Content-Type": "application/json"})


# deciding and rewarding


def test_decisions_are_the_agents(agent: Agent, client: TestClient) -> None:
    named = client.post("/decisions", json={"arms": ARMS}).json()
    assert named["arm"] in ARMS
    assert list(ARMS)[named["index"]] == named["arm"]
    plain = client.post("/decisions", json={"arms": list(ARMS.values())}).json()
    assert plain["arm"] == plain["index"]
    assert agent.status().decisions == 2
    assert agent.reward(named["id"], 1.0)


def test_one_reward(client: TestClient) -> None:
    name = client.post("/decisions", json={"arms": ARMS}).json()["id"]
    told = {"decision": name, "value": 1}
    assert client.post("/rewards", json=told).json() == {"decision": name, "outcome": "counted"}
    assert client.post("/rewards", json=told).json() == {"decision": name, "outcome": "duplicate"}
    assert code_of(client.post("/rewards", json=told | {"value": 0.5})) == "conflict"
    assert code_of(client.post("/rewards", json=told | {"decision": "1-0000000000000000"})) == "unknown_decision"
    assert code_of(client.post("/rewards", json=told | {"decision": "nonsense"})) == "unknown_decision"
    assert code_of(client.post("/rewards", json=told | {"value": 5.1})) == "invalid_input"
    assert client.get("/status").json()["rewards"] == 1


def test_a_batch_is_judged_one_by_one(agent: Agent, client: TestClient, clock: Clock) -> None:
    late = agent.decide(ARMS).id
    clock.now += 101
    first, second, third = (agent.decide(ARMS).id for _ in range(3))
    agent.reward(third, 0.25)
    told = [(second, 1.0), (late, 1.0), (first, 0.5), ("7-00", 1.0), (second, 1.0), (first, 0.6), (third, 9.0)]
    answer = client.post("/rewards", json={"rewards": [{"decision": name, "value": value} for name, value in told]})
    assert answer.status_code == 200
    content = answer.json()
    assert [(item["decision"], item.get("code", item["outcome"])) for item in content["results"]] == [
        (second, "counted"),
        (late, "expired"),
        (first, "counted"),
        ("7-00", "unknown_decision"),
        (second, "duplicate"),
        (first, "conflict"),
        (third, "invalid_input"),
    ]
    assert (content["counted"], content["duplicate"], content["refused"]) == (2, 1, 4)
    assert agent.status().rewards == 3
    assert agent.status().late == 1
    assert code_of(client.post("/rewards", json={"decision": late, "value": 1.0})) == "expired"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0])), max_size=20),
    st.lists(st.integers(1, 20), max_size=3),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rewards_in_any_order_and_any_batches_count_once(
    agent: Agent, client: TestClient, told: list[tuple[int, float]], cuts: list[int]
) -> None:
    """The first value for a decision is the one that counts, whatever comes when and together with what."""
    before = agent.status().rewards
    names = [agent.decide(ARMS).id for _ in range(4)]
    first: dict[int, float] = {}
    outcomes, expected = [], []
    for number, value in told:
        outcome = "duplicate" if first.get(number) == value else "conflict"
        expected.append("counted" if number not in first else outcome)
        first.setdefault(number, value)
    places = [0, *sorted(cuts), len(told)]
    for start, stop in itertools.pairwise(places):
        batch = [{"decision": names[number], "value": value} for number, value in told[start:stop]]
        results = client.post("/rewards", json={"rewards": batch}).json()["results"]
        outcomes += [item.get("code", item["outcome"]) for item in results]
    assert outcomes == expected
    assert agent.status().rewards - before == len(first)


# refusals


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ('{"arms": [[NaN, 0, 0]]}', "invalid_json"),
        ('{"arms": [[Infinity, 0, 0]]}', "invalid_json"),
        ('{"arms": [[-Infinity, 0, 0]]}', "invalid_json"),
        ('{"arms": [[1e999, 0, 0]]}', "invalid_request"),
        ('{"arms": [[%s, 0, 0]]}' % ("9" * 350), "invalid_request"),
        ('{"arms": [[%s, 0, 0]]}' % ("9" * 5000), "invalid_json"),
        ('{"arms": {"a": [1, 0, 0], "a": [0, 1, 0]}}', "invalid_json"),
        ('{"arms": [[1, 0, 0]], "arms": [[1, 0, 0]]}', "invalid_json"),
        (b'{"arms": {"\xff": [1, 0, 0]}}', "invalid_json"),
        ('{"arms": [[1, 0, 0]]}'.encode("utf-16"), "invalid_json"),
        ("[" * 9000, "invalid_json"),
        ('{"arms": {"\\ud800": [1, 0, 0]}}', "invalid_request"),
        ('{"arms": [["1", 0, 0]]}', "invalid_request"),
        ('{"arms": [[true, 0, 0]]}', "invalid_request"),
        ('{"arms": [[null, 0, 0]]}', "invalid_request"),
        ('{"arms": "rows"}', "invalid_request"),
        ('{"arms": [[1, 0, 0]], "extra": 1}', "invalid_request"),
        ("{}", "invalid_request"),
        ("null", "invalid_request"),
        ("[]", "invalid_request"),
        ('{"arms": [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]}', "invalid_request"),
        ('{"arms": []}', "invalid_input"),
        ('{"arms": {}}', "invalid_input"),
        ('{"arms": [[1, 0]]}', "invalid_input"),
        ('{"arms": [[1, 0, 0], [1, 0]]}', "invalid_input"),
        ('{"arms": [[1e7, 0, 0]]}', "invalid_input"),
        ('{"arms": [[-1e7, 0, 0]]}', "invalid_input"),
    ],
)
def test_arms_that_are_refused(agent: Agent, client: TestClient, text: str | bytes, code: str) -> None:
    assert code_of(post(client, "/decisions", text)) == code
    assert agent.status().decisions == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"decision": "%s"}',
        '{"decision": "%s", "value": null}',
        '{"decision": "%s", "value": "1"}',
        '{"decision": "%s", "value": true}',
        '{"decision": "%s", "value": 1, "more": 1}',
        '{"decision": "%s", "value": 1e999}',
        '{"rewards": {"%s": 1}}',
        '{"rewards": [{"decision": "%s", "value": 1}], "value": 1}',
        '{"rewards": [{"decision": "%s", "value": 1}, {"decision": 1, "value": 1}]}',
        '{"rewards": [{"decision": "%s", "value": 1}, {"decision": "1-00", "value": 1e999}]}',
        '[{"decision": "%s", "value": 1}]',
        '"%s"',
        '{"rewards": [' + ", ".join(['{"decision": "%s", "value": 1}'] * 21) + "]}",
    ],
)
def test_rewards_that_are_refused_whole(agent: Agent, client: TestClient, text: str) -> None:
    name = agent.decide(ARMS).id
    assert code_of(post(client, "/rewards", text.replace("%s", name))) == "invalid_request"
    assert agent.status().rewards == 0


def test_complaints_name_the_place_and_repeat_nothing(client: TestClient) -> None:
    answer = post(client, "/decisions", '{"arms": {"call": [1, "a secret", 0]}}')
    assert answer.json()["error"]["message"] == "arms.call.1: must be a valid number"
    answer = post(client, "/rewards", '{"decision": "1-00"}')
    assert answer.json()["error"]["message"] == "value: field required"


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0123456789.eE+-NaIft ', max_size=40).map(str.encode))
def test_what_is_parsed_is_json_for_another_parser_too(body: bytes) -> None:
    with contextlib.suppress(RefusedError):
        value = parsed(body)
        assert pydantic_core.from_json(body, allow_inf_nan=False) == value


def test_bodies_have_a_type_and_a_size(agent: Agent, client: TestClient) -> None:
    content = json.dumps({"arms": ARMS})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = client.post("/decisions", content=content, headers={"Content-Type": kind})
        assert code_of(answer) == "unsupported_media_type"
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert code_of(client.post("/decisions", content=content, headers=packed)) == "unsupported_media_type"
    assert code_of(post(client, "/decisions", content + " " * 10_000)) == "body_too_large"
    assert post(client, "/decisions", content + " " * (10_000 - len(content))).status_code == 200
    assert agent.status().decisions == 1


def test_paths_and_methods(client: TestClient) -> None:
    assert code_of(client.get("/nothing")) == "not_found"
    answer = client.get("/decisions")
    assert code_of(answer) == "method_not_allowed"
    assert answer.headers["allow"] == "POST"
    assert code_of(post(client, "/decisions/", "{}")) == "not_found"


# who asks


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer {TOKEN}\xe9",
    ],
)
@pytest.mark.parametrize("path", ["/status", "/metrics", "/nothing"])
def test_wrong_tokens(agent: Agent, path: str, given: str | None) -> None:
    client = speaking(agent)
    del client.headers["Authorization"]
    headers = [] if given is None else [(b"Authorization", given.encode("latin-1"))]
    answer = client.get(path, headers=headers)
    assert code_of(answer) == "unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_right_tokens(agent: Agent) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert speaking(agent, Authorization=f"{scheme} {TOKEN}").get("/status").status_code == 200
    twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
    client = speaking(agent)
    del client.headers["Authorization"]
    assert client.get("/status", headers=twice).status_code == 401


def test_wrong_tokens_are_refused_before_the_body_is_read(agent: Agent) -> None:
    client = speaking(agent, Authorization="Bearer wrong")
    assert code_of(post(client, "/decisions", "x" * 20_000)) == "unauthorized"
    assert code_of(post(client, "/rewards", "{")) == "unauthorized"


def test_public_paths(agent: Agent) -> None:
    client = speaking(agent, Authorization="Bearer wrong")
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/openapi.json").status_code == 200
    page = client.get("/docs")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert not re.search(r"(src|href)=\"?(https?:)?//", page.text)
    assert "POST /decisions" in page.text
    assert "/rewards</code>" in page.text


def test_without_token_only_names_of_this_machine(agent: Agent) -> None:
    """A web page cannot reach the service under a name of its own that resolves to this machine."""
    client = speaking(agent, token=None)
    for host in ("localhost", "localhost:8484", "127.0.0.1:1", "[::1]", "[::1]:8484", "LOCALHOST"):
        assert client.get("/status", headers={"Host": host}).status_code == 200
    for host in (
        "evil.example",
        "evil.example:8484",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "",
    ):
        assert code_of(client.get("/status", headers={"Host": host})) == "forbidden_host"


def test_decisions_in_sequence(tmp_path):
    planner = fb.algorithms.LSVIUCB(width=0.5)
    with Agent.open(tmp_path / "ward.db", planner, 2, facts=[Episodes(3)], durable=False, warm=False) as ward:
        client = speaking(ward)
        arms = [[1.0, 0.0], [0.0, 1.0]]
        chosen = client.post("/decisions", json={"arms": arms, "episode": "patient-17"}).json()
        assert code_of(client.post("/decisions", json={"arms": arms})) == "invalid_input"
        other = {"arms": arms, "episode": "patient-17", "who": "somebody"}
        assert code_of(client.post("/decisions", json={"decisions": [other]})) == "conflict"
        for outcome in ("ended", "over"):
            told = client.post("/finish", json={"episode": "patient-17"}).json()
            assert told == {"episode": "patient-17", "outcome": outcome}
        assert code_of(client.post("/finish", json={"episode": "patient-18"})) == "unknown_episode"
        assert client.get("/status").json()["episodes"]["waiting"] == 1
        client.post("/rewards", json={"decision": chosen["id"], "value": 1.0})
        assert client.get("/status").json()["episodes"]["closed"] == 1
        assert "fedbandits_agent_closed_episodes_total 1.0" in client.get("/metrics").text


def test_the_schema_tells_sizes_and_security(agent: Agent) -> None:
    schema = speaking(agent).get("/openapi.json").json()
    rows, named = schema["components"]["schemas"]["Choice"]["properties"]["arms"]["oneOf"]
    assert (rows["minItems"], rows["maxItems"], rows["items"]["minItems"], rows["items"]["maxItems"]) == (1, 5, 3, 3)
    assert (named["maxProperties"], named["additionalProperties"]["maxItems"]) == (5, 3)
    assert "between -5 and 5" in schema["components"]["schemas"]["Reward"]["properties"]["value"]["description"]
    secured = {path: "security" in next(iter(methods.values())) for path, methods in schema["paths"].items()}
    closed = ("/decisions", "/rewards", "/finish", "/status", "/metrics")
    assert secured == dict.fromkeys(closed, True) | {"/health": False}
    open_schema = speaking(agent, token=None).get("/openapi.json").json()
    assert not any("security" in method for path in open_schema["paths"].values() for method in path.values())


# looking


def test_status(client: TestClient, agent: Agent) -> None:
    agent.reward(agent.decide(ARMS).id, 1.0)
    agent.decide(ARMS)
    status = client.get("/status").json()
    counted = {
        name: status[name] for name in ("algorithm", "dim", "decisions", "rewards", "awaiting", "synchronised_at")
    }
    assert counted == {
        "algorithm": "dislinucb",
        "dim": 3,
        "decisions": 2,
        "rewards": 1,
        "awaiting": 1,
        "synchronised_at": None,
    }
    assert "seed" not in status


def test_metrics(client: TestClient, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    name = client.post("/decisions", json={"arms": ARMS}).json()["id"]
    client.post("/decisions", json={"arms": ARMS})
    client.post("/rewards", json={"decision": name, "value": 1.0})
    client.get("/made-up")
    samples = scraped(client)
    assert samples["fedbandits_agent_decisions_total"] == 2
    assert samples["fedbandits_agent_rewards_total"] == 1
    assert samples["fedbandits_agent_awaiting_decisions"] == 1
    assert samples["fedbandits_agent_expired_decisions_total"] == 0
    assert "fedbandits_agent_last_synchronisation_timestamp_seconds" not in samples
    assert samples["fedbandits_agent_request_duration_seconds_count", "/decisions", "200"] == 2
    assert samples["fedbandits_agent_request_duration_seconds_count", "other", "404"] == 1
    assert 0 < samples["fedbandits_agent_request_duration_seconds_sum", "/decisions", "200"] < 60
    spoken = fb.deploy.Status(
        *(2, 1, 1, 0, 0, 1),
        synchronised_at=datetime.fromtimestamp(1_700_000_000.0, UTC),
        calling=True,
        level=0.25,
        spent=0.5,
        unacknowledged=3,
    )
    monkeypatch.setattr(agent, "status", lambda: spoken)
    samples = scraped(client)
    assert samples["fedbandits_agent_last_synchronisation_timestamp_seconds"] == 1_700_000_000
    assert samples["fedbandits_agent_urgency_ratio"] == 0.25
    assert samples["fedbandits_agent_unacknowledged_answers"] == 3
    assert samples["fedbandits_agent_calling"] == 1
    assert samples["fedbandits_agent_privacy_spent_epsilon"] == 0.5


def scraped(client: TestClient) -> dict[Any, float]:
    """The samples without labels by name, those of requests by name, path and status; as Prometheus reads them."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[Any, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if "le" not in sample.labels:
                labels = tuple(sample.labels[name] for name in ("path", "status") if name in sample.labels)
                found[(sample.name, *labels) if labels else sample.name] = sample.value
    assert not any(math.isnan(value) for value in found.values())
    return found


# trouble


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (DiskFullError, "disk_full", True),
        (LockedError, "locked", True),
        (CorruptError, "damaged", False),
        (ClosedError, "stopping", True),
    ],
)
def test_trouble_with_the_file_is_told_without_its_place(
    agent: Agent,
    client: TestClient,
    error: type[Exception],
    code: str,
    again: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(f"{agent.path}: no way")

    for name in ("decide", "reward", "rewards_apart", "status"):
        monkeypatch.setattr(agent, name, fail)
    for answer in (
        client.post("/decisions", json={"arms": ARMS}),
        client.post("/rewards", json={"decision": "1-00", "value": 1.0}),
        client.post("/rewards", json={"rewards": [{"decision": "1-00", "value": 1.0}]}),
        client.get("/status"),
        client.get("/metrics"),
    ):
        assert code_of(answer) == code
        assert ("retry-after" in answer.headers) == again
        assert "secret-place" not in answer.text
    assert "secret-place" in caplog.text
    assert client.get("/health").status_code == 200


def test_a_batch_that_fails_midway_can_be_sent_again(
    agent: Agent, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [agent.decide(ARMS).id for _ in range(3)]
    batch = {"rewards": [{"decision": name, "value": 1.0} for name in names]}
    real = agent._journal.reward

    def full(entry: int, at: float, decision: int, value: float) -> None:
        if entry == 5:
            raise DiskFullError("no room")
        real(entry, at, decision, value)

    monkeypatch.setattr(agent._journal, "reward", full)
    assert code_of(client.post("/rewards", json=batch)) == "disk_full"
    assert agent.status().rewards == 0
    monkeypatch.undo()
    outcomes = [item["outcome"] for item in client.post("/rewards", json=batch).json()["results"]]
    assert outcomes == ["counted", "counted", "counted"]
    assert agent.status().rewards == 3


def test_defects_are_not_shown(agent: Agent, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("something private")

    monkeypatch.setattr(agent, "decide", fail)
    answer = client.post("/decisions", json={"arms": ARMS})
    assert code_of(answer) == "internal"
    assert "private" not in answer.text
    assert scraped(client)["fedbandits_agent_request_duration_seconds_count", "/decisions", "500"] == 1
