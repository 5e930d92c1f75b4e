"""Arms that are known by name alone, that come and go."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.deploy import Agent, CorruptError, ExpiredError, InputError
from fedbandits.facts import Range

UCB1 = fb.algorithms.UCB1()
BY_PLACE = {"ucb1": {}, "kl-ucb": {}, "thompson-beta": {}, "thompson-gaussian": {}, "dp-ucb-int": {"epsilon": 5.0}}


@pytest.fixture
def opened(tmp_path):
    agents: list[Agent] = []

    def open_(name="agent.db", algorithm=UCB1, dim=3, **settings):
        options = {"durable": False, "warm": False, "facts": [Range(0.0, 1.0)]} | settings
        agents.append(Agent.open(tmp_path / name, algorithm, dim, **options))
        return agents[-1]

    yield open_
    for agent in agents:
        agent.close()


def played(agent: Agent, names: list[str], turns: int, best: str) -> list[str]:
    taken = []
    for _ in range(turns):
        decision = agent.decide(names)
        assert names[decision.index] == decision.arm
        agent.reward(decision.id, float(decision.arm == best))
        taken.append(str(decision.arm))
    return taken


@pytest.mark.parametrize("name", BY_PLACE)
def test_arms_come_and_go(opened, name):
    """Whatever is shown, in whatever order: only shown arms are taken, and the best of them most often."""
    algorithm = ALGORITHMS[name](**BY_PLACE[name])
    agent = opened(algorithm=algorithm, dim=4, snapshot_every=7)
    assert set(played(agent, ["b", "a"], 20, "a")) <= {"a", "b"}
    taken = played(agent, ["c", "a", "b"], 60, "c")
    assert set(taken) <= {"a", "b", "c"}
    # noise that protects people comes from the operating system, and may hide the best arm for so short a time
    assert algorithm.about.private or taken[30:].count("c") > 15
    assert set(played(agent, ["b"], 5, "b")) == {"b"}
    again = opened(algorithm=None, dim=None)  # from the file
    assert all(np.array_equal(array, again.state()[key]) for key, array in agent.state().items())
    assert again.decide(["a", "d"]).arm in ("a", "d")


def test_all_arms_by_name_are_all_arms_by_place(opened):
    named, plain = opened(), opened("plain.db")
    named.decide(["x", "y", "z"])
    plain.decide(np.eye(3))
    for turn in range(20):
        first, second = named.decide(["x", "y", "z"]), plain.decide(np.eye(3))
        assert (first.index, first.score) == (second.index, second.score)
        for agent, decision in ((named, first), (plain, second)):
            agent.reward(decision.id, turn % 2)
    assert all(np.array_equal(array, plain.state()[key]) for key, array in named.state().items())


def test_there_are_as_many_places_as_arms(opened):
    agent = opened()
    agent.decide(["a", "b", "c"])
    with pytest.raises(InputError, match="no place left for the arm 'd': all 3 are taken, 0 of them by retired arms"):
        agent.decide(["a", "d"])
    agent.retire("b")
    with pytest.raises(InputError, match="'b' was retired"):
        agent.decide(["a", "b"])
    with pytest.raises(InputError, match="1 of them by retired arms; drop what was learned"):
        agent.decide(["d"])
    with pytest.raises(InputError, match="retired already"):
        agent.retire("b")
    with pytest.raises(InputError, match="no arm is called 'bb'; did you mean 'b'"):
        agent.retire("bb")
    assert agent.status().decisions == 1


def test_a_dropped_place_starts_anew(opened):
    agent, other = opened(snapshot_every=5), opened()
    played(agent, ["a", "b", "c"], 30, "b")
    waiting = next(d for d in (agent.decide(["a", "b", "c"]) for _ in range(9)) if d.arm == "b")
    agent.retire("b", drop=True)
    with pytest.raises(ExpiredError):
        agent.reward(waiting.id, 1.0)  # it would be learned of whoever has the place now
    assert agent.decide(["a", "d"]).arm == "d"  # never taken, so it comes first
    for one in (other, opened(algorithm=None, dim=None)):  # another process, and from the file
        assert all(np.array_equal(array, one.state()[key]) for key, array in agent.state().items())
    with pytest.raises(InputError, match="no place left"):
        agent.decide(["b"])


def test_what_cannot_be_dropped_stays(opened):
    agent = opened(algorithm=fb.algorithms.DPUCBInt(epsilon=5.0))
    agent.decide(["a", "b"])
    before = agent.state()
    with pytest.raises(InputError, match="cannot drop"):
        agent.retire("a", drop=True)
    assert agent.decide(["a"]).arm == "a"
    assert before.keys() == agent.state().keys()


def test_names_of_a_federation_are_declared(opened):
    linear = fb.algorithms.DisLinUCB(threshold=2.0)
    with pytest.raises(InputError, match="only if they are declared, with arm_names"):
        opened(algorithm=linear).decide(["a", "b"])
    agent = opened("declared.db", algorithm=linear, dim=None, arm_names=["a", "b", "c"])
    assert agent.decide(["c", "a"]).arm == "a"  # the lowest place of equals
    with pytest.raises(InputError, match="there is no arm 'd'"):
        agent.decide(["d"])
    agent.retire("b")
    with pytest.raises(InputError, match="'b' was retired"):
        agent.decide(["b"])
    with pytest.raises(InputError, match="declared in arm_names"):
        agent.retire("c", drop=True)


@pytest.mark.parametrize("names", [["a", "a"], ["a", 1], ["\ud800"], ["a", [1.0, 0.0, 0.0]]])
def test_names_are_text_each_once(opened, names):
    agent = opened()
    with pytest.raises(InputError):
        agent.decide(names)
    assert agent.status().decisions == 0


def test_a_damaged_place_is_noticed(opened):
    agent = opened()
    agent.decide(["a", "b"])
    with agent._journal.connection as db:
        db.execute("UPDATE places SET name = 'c' WHERE name = 'a'")
    with pytest.raises(CorruptError, match="the place of an arm is damaged"):
        agent.decide(["c"])
