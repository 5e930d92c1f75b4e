"""Features that come and go: states grow by zero rows and lose rows, files follow, and nothing else changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from deployed_algorithms import TALKATIVE

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.deploy import Agent, InputError, ReplayError, SettingsError
from fedbandits.deploy.migrating import Change, migrate
from fedbandits.deploy.settings import Settings, made
from fedbandits.facts import Link, Shared
from fedbandits.transport.carriers import InProcess, hold

ALONE = np.zeros(1, dtype=np.int64)
FEATURES = ("age", "new", "near", "far")
BY_FEATURES = sorted(
    name
    for name, kind in ALGORITHMS.items()
    if kind.about.topology != "graph" and kind.about.family in ("linear", "clustered", "generalized", "any")
)
CONSTANT = {"width": 0.7}
"""A width that does not depend on the number of features; without, the algorithms' own rules move scores."""
SUMS_ALONE = {"random"} | {name for name in BY_FEATURES if ALGORITHMS[name].about.family in ("linear", "clustered")} - {
    "async-linucb-am",
    "fedlinucb-async",
}


def settings(name: str, features: tuple[str, ...] = FEATURES, **more) -> Settings:
    kind = ALGORITHMS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    parameters = dict(TALKATIVE.get(name, {})) | {key: value for key, value in CONSTANT.items() if key in known}
    facts = [Shared(2), Link("logistic")] if kind.about.family == "generalized" else [Shared(2)]
    return made({"algorithm": kind(**parameters), "features": features, "facts": facts, "horizon": 30} | more)


def lived(told: Settings, turns: int = 25, *, talks: bool = True, column: int | None = None):
    """An agent after some turns, with a server that tells it what it handed over; without one of the columns."""
    population, rng = told.population(), np.random.default_rng(0)
    server = told.algorithm.server(told.problem, 1, told.server_streams()) if talks else None
    for _ in range(turns):
        arms = rng.normal(size=(1, 5, len(FEATURES))) / 2
        picks, reward = np.array([rng.integers(5)]), rng.random(1).round()
        shown = arms if column is None else np.delete(arms, column, axis=2)
        population.choose(ALONE, shown)
        population.learn(ALONE, shown, picks, reward)
        if server is not None and population.calling()[0]:
            hold(server, ALONE, InProcess(population, Ledger(), told.wire))
    return population


@pytest.mark.parametrize("name", BY_FEATURES)
def test_a_new_feature_that_is_zero_changes_nothing(name):
    """Whatever the algorithm: scores and choices are those of before, and it can learn of the feature."""
    told, change = settings(name), Change(add="rich")
    old = lived(told, talks=ALGORITHMS[name].about.topology == "star" and "oracle" not in name)
    after = change.of_settings(told)
    new = after.population()
    new.load(change.of_state(old.state(), told, Settings.population))
    rng = np.random.default_rng(1)
    for _ in range(5):
        arms = rng.normal(size=(1, 6, 4)) / 2
        wider = np.concatenate([arms, np.zeros((1, 6, 1))], axis=2)
        before, now = old.scores(ALONE, arms), new.scores(ALONE, wider)
        assert (before is None) == (now is None)
        if before is not None:
            assert now == pytest.approx(before, rel=1e-9, nan_ok=True)
        picks = old.choose(ALONE, arms)
        assert new.choose(ALONE, wider) == picks or name == "independent-lints"  # which draws one number more
        old.learn(ALONE, arms, picks, np.array([1.0]))
        new.learn(ALONE, wider, picks, np.array([1.0]))
    assert bool(new.calling()[0]) == bool(old.calling()[0])
    new.learn(ALONE, np.ones((1, 1, 5)), ALONE, np.array([1.0]))


@pytest.mark.parametrize("name", sorted(SUMS_ALONE))
def test_a_dropped_feature_was_never_there(name):
    """Where knowledge is sums: the state of an agent that took the same decisions without it."""
    told, change = settings(name), Change(drop="new")
    old = lived(told, talks=False)
    never = lived(settings(name, ("age", "near", "far")), talks=False, column=1)
    found, expected = change.of_state(old.state(), told, Settings.population), never.state()
    for key, array in expected.items():
        if not key.endswith(("updates", "words")):
            assert found[key] == pytest.approx(array, rel=1e-9, abs=1e-12), key


@pytest.mark.parametrize("name", ["fedglb-ucb", "n-ucb-glm", "async-linucb-am"])
def test_a_feature_that_estimates_rest_on_cannot_be_dropped(name):
    told = settings(name)
    with pytest.raises(InputError, match=r"a feature cannot be dropped: .* no sum over observations"):
        Change(drop="far").of_state(lived(told, talks=False).state(), told, Settings.population)


def test_what_was_drawn_for_the_features_cannot_grow():
    from fedbandits.contract.state import Stateful
    from fedbandits.deploy.embedded.reshaping import with_feature

    class Drawn(Stateful):
        keeps = ("directions",)

        def __init__(self, dim: int) -> None:
            self.directions = np.random.default_rng(0).normal(size=(6, dim))

    with pytest.raises(InputError, match="directions was drawn"):
        with_feature(Drawn(3).state(), Drawn(3), Drawn(4))


# files


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "agent.db"
    algorithm = fb.algorithms.DisLinUCB(threshold=2.0, width=0.5)
    with Agent.open(path, algorithm, features=FEATURES[:3], durable=False, warm=False, keep_shown=True) as agent:
        for i in range(20):
            arms = np.random.default_rng(i).normal(size=(4, 3))
            agent.reward(agent.decide(arms).id, i % 2)
    return path


def test_an_agent_goes_on_with_one_feature_more(path, tmp_path):
    with Agent.open(path, warm=False) as agent:
        waiting = agent.decide([[1.0, 0, 0], [0, 1.0, 0]])
        expected = agent.decide(np.eye(3))
    done = migrate(path, Change(add="far"), tmp_path / "before.db")
    assert done.features == FEATURES
    assert done.moved is not None
    assert done.moved < 1e-9
    with Agent.open(path, warm=False) as agent, Agent.open(tmp_path / "before.db", warm=False) as before:
        found = agent.decide([[*row, 0.0] for row in np.eye(3).tolist()])
        assert (found.index, found.score) == (expected.index, pytest.approx(expected.score))
        for one in (agent, before):
            assert one.reward(waiting.id, 1.0)
        assert agent.state()["models.fresh.gram"][0, :3, :3] == pytest.approx(before.state()["models.fresh.gram"][0])
        agent.reward(agent.decide({"a": dict.fromkeys(FEATURES, 1.0)}).id, 1.0)
        assert [len(line.shown[0]) for line in agent.log(shown=True)] == [4] * 24
    with Agent.open(path, warm=False) as again:
        assert again.status().rewards == 22
    assert migrate(path, Change(drop="new"), tmp_path / "again.db").features == ("age", "near", "far")
    with Agent.open(path, warm=False) as agent:
        assert agent.decide(np.eye(3)).propensity == 1.0


def test_names_for_features_that_have_none(tmp_path):
    path = tmp_path / "plain.db"
    Agent.open(path, fb.algorithms.DisLinUCB(), 3, warm=False).close()
    with pytest.raises(SettingsError, match="no names; give them names first"):
        migrate(path, Change(add="far"), tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert migrate(path, Change(name=FEATURES[:3]), tmp_path / "copy.db").features == FEATURES[:3]
    with Agent.open(path, warm=False) as agent:
        assert agent.decide({"a": {"age": 1.0, "new": 0.0, "near": 0.0}}).arm == "a"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"add": "age"}, "there is a feature 'age' already"),
        ({"drop": "agee"}, "no feature 'agee'; did you mean 'age'"),
        ({"name": ("a", "b", "c")}, "have names already"),
        ({}, "one of --add-feature"),
        ({"add": "x", "drop": "age"}, "one of --add-feature"),
    ],
)
def test_changes_that_make_no_sense(path, tmp_path, change, complaint):
    content = path.read_bytes()
    with pytest.raises(SettingsError, match=complaint):
        migrate(path, Change(**change), tmp_path / "copy.db")
    assert path.read_bytes() == content
    assert not (tmp_path / "copy.db").exists()


def test_an_opening_of_before_refuses_to_go_on(path, tmp_path):
    agent = Agent.open(path, warm=False, durable=False)
    migrate(path, Change(add="far"), tmp_path / "before.db")
    with pytest.raises(ReplayError, match="does not fit"):
        agent.decide(np.eye(3))
    agent.close()
    with Agent.open(path, warm=False) as again:
        assert again.status().decisions == 20


def test_what_was_handed_over_has_to_be_settled(path, tmp_path):
    with Agent.open(path, warm=False, durable=False) as agent:
        letter = agent.settings.wire.encode(Message("collect", ALONE, {}), 0, "down")
        agent.answer(letter, "c", 0, verdicts=())
        assert agent.unacknowledged() == [("c", 0)]
    with pytest.raises(InputError, match="1 replies handed something over"):
        migrate(path, Change(add="far"), tmp_path / "before.db")
    migrate(path, Change(add="far"), tmp_path / "before.db", assume_accepted=True)
    with Agent.open(path, warm=False) as agent:
        assert agent.unacknowledged() == []


def test_a_copy_that_exists_is_not_overwritten(path, tmp_path):
    (tmp_path / "before.db").write_text("kept")
    with pytest.raises(fb.deploy.StorageError, match="not overwritten"):
        migrate(path, Change(add="far"), tmp_path / "before.db")
    with Agent.open(path, warm=False) as agent:
        assert agent.settings.dim == 3
