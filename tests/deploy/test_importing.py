"""Beginning from history: a log becomes entries like the agent's own."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy import Agent, ConflictError, InputError
from fedbandits.facts import Range

ALONE = np.zeros(1, dtype=np.int64)
LINUCB = fb.algorithms.DisLinUCB(threshold=2.0)
NAMES = ["age", "new", "near"]


@pytest.fixture
def opened(tmp_path):
    agents: list[Agent] = []

    def open_(name="agent.db", algorithm=LINUCB, **settings):
        options = {"durable": False, "warm": False} | settings
        agents.append(Agent.open(tmp_path / name, algorithm, **options))
        return agents[-1]

    yield open_
    for agent in agents:
        agent.close()


def log_of(count: int, names=NAMES, **more) -> tuple[bytes, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    x, y = rng.normal(size=(count, 3)), rng.normal(size=count)
    columns = [*names, "reward", *more]
    lines = [",".join(columns)]
    for row, reward in zip(x, y, strict=True):
        lines.append(",".join(map(repr, [*row.tolist(), float(reward)])) + "".join(f",{v}" for v in more.values()))
    return "\n".join(lines).encode() + b"\n", x, y


def same(left, right) -> bool:
    return all(np.array_equal(array, right[name]) for name, array in left.items())


def test_the_agent_learns_as_from_its_own(opened):
    agent = opened(features=NAMES)
    content, x, y = log_of(40)
    assert agent.import_log(content) == 40
    population = agent.settings.population()
    for row, reward in zip(x, y, strict=True):
        population.learn(ALONE, row[None, None], ALONE, np.array([reward]))
    assert same(agent.state(), population.state())
    status = agent.status()
    assert (status.decisions, status.rewards, status.awaiting) == (40, 40, 0)
    again = opened()  # nothing was saved: all is done again
    assert same(agent.state(), again.state())
    letter = agent.settings.wire.encode(Message("collect", ALONE, {}), 0, "down")
    _, told = Wire.decode(agent.answer(letter, "c", 0))
    assert told["moment"] == pytest.approx(x.T @ y)
    for line in agent.log():
        assert (line.chosen_by, line.propensity, line.score) == ("others", None, None)


def test_optional_columns(opened):
    agent = opened(features=NAMES)
    content = b"\xef\xbb\xbfarm,who,at,propensity,new,age,near,reward\r\n"
    content += b'"a, b",Ann,2024-05-01T10:00:00+02:00,0.25,1,2,3,0.5\r\ncall,,1714600000,,1,2,3,1\r\n'
    assert agent.import_log(content) == 2
    first, second = agent.log(shown=True)
    assert (first.arm, first.who, first.propensity, first.reward) == ("a, b", "Ann", 0.25, 0.5)
    assert first.at == datetime(2024, 5, 1, 8, tzinfo=UTC)
    assert first.shown == [[2.0, 1.0, 3.0]]
    assert (second.arm, second.who, second.propensity) == ("call", None, None)
    assert agent.forget(datetime(2024, 5, 1, 8, 0, 1, tzinfo=UTC)) == 1
    assert [line.arm for line in agent.log()] == ["call"]


def test_a_log_is_imported_once(opened):
    agent = opened(features=NAMES)
    content, _, _ = log_of(5)
    agent.import_log(content)
    state = agent.state()
    with pytest.raises(ConflictError, match="imported before, on"):
        agent.import_log(content)
    assert same(agent.state(), state)
    assert agent.import_log(log_of(6)[0]) == 6


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no column 'reward'"),
        (b"age,new,near,reward\n", "no observations"),
        (b"age,new,near,rewrad\n1,2,3,4\n", "line 1: column 'rewrad' is not known; did you mean 'reward'"),
        (b"age,new,reward\n1,2,3\n", "line 1: there is no column 'near'"),
        (b"age,age,new,near,reward\n", "twice"),
        (b"arm,who\n", "no column 'reward'"),
        (b"who,reward\n", "neither features"),
        (b"age,new,near,reward\n1,2,3,4\n1,2,x,4\n", "line 3: near must be a number, got 'x'"),
        (b"age,new,near,reward\n1,2,3,4\n1,2,3\n", "line 3: it has another number of values"),
        (b"age,new,near,reward\n1,2,3,4,5\n", "line 2: it has another number of values"),
        (b"age,new,near,reward\n1,2,nan,4\n", "line 2: the features of arms .0. are not finite"),
        (b"age,new,near,reward\n1,2,3,4\n1,2,3,9\n", "line 3: rewards lie between 0 and 5"),
        (b"age,new,near,reward,propensity\n1,2,3,4,0\n", "line 2: propensity must lie in"),
        (b"age,new,near,reward,at\n1,2,3,4,2024-05-01\n", "line 2: a datetime needs a time zone"),
        (b"age,new,near,reward,at\n1,2,3,4,soon\n", "line 2: at must be a number"),
        (b'age,new,near,reward\n1,2,3,"4\n', "line 2: not CSV"),
        (b"age,new,near,reward\n1,2,3,\xff\n", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_taken_in(opened, content, complaint):
    agent = opened(features=NAMES, facts=[Range(0.0, 5.0)])
    before = agent.state()
    with pytest.raises(InputError, match=complaint):
        agent.import_log(content)
    assert same(agent.state(), before)
    assert agent.status().decisions == 0


def test_features_without_names_and_those_that_are_not_there(opened):
    agent = opened(dim=3, missing="zero", arms=2)
    agent.import_log(b"x2,reward,x0\n3,1,1\n")
    assert next(agent.log(shown=True)).shown == [[1.0, 0.0, 3.0]]


def test_arms_by_place(opened):
    agent = opened(algorithm=fb.algorithms.UCB1(), dim=2, facts=[Range(0.0, 1.0)])
    assert agent.import_log(b"arm,reward\nmail,1\ncall,0\nmail,1\n") == 3
    assert agent.decide(["call", "mail"]).arm in ("call", "mail")
    assert agent.state()["known.counts"].tolist() == [[2, 1]]
    with pytest.raises(InputError, match="line 2: there is no place left for the arm 'visit'"):
        agent.import_log(b"arm,reward\nvisit,1\n")
    with pytest.raises(InputError, match="line 3: 'arm' is empty"):
        agent.import_log(b"arm,reward\nmail,1\n,1\n")


def test_a_private_agent_can_begin_from_history(opened):
    agent = opened(algorithm=fb.algorithms.DPUCBInt(epsilon=5.0), dim=2, facts=[Range(0.0, 1.0)])
    agent.import_log(b"arm,reward\n" + b"a,1\nb,0\n" * 10)
    again = opened(algorithm=None)
    assert same(agent.state(), again.state())
    assert agent.status().spent > 0
