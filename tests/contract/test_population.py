"""What populations and servers are, unless they say otherwise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.catalogue import About
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Utterance, WireError, vector

WHO = np.arange(3)
ENV = fb.environments.Linear(clients=3, dim=2, arms=4)


class Counters(Population):
    """The least that a population has to say: each agent takes its arms in turn."""

    keeps: ClassVar[tuple[str, ...]] = ("count",)

    def __init__(self, n):
        super().__init__(n)
        self.count = np.zeros(n, dtype=np.int64)

    def choose(self, who, arms):
        return self.count[who] % arms.shape[1]

    def learn(self, who, arms, picks, rewards):
        self.count[who] += 1


class Deaf(Server):
    """The least that a server has to say: nothing."""

    def converse(self, callers):
        yield from ()


@parameters
class Counting:
    """Works with the defaults of everything."""

    about: ClassVar[About] = About("counting", "own", "alone", "never", (), "none", "none", calls="never")

    def agents(self, problem, n, rng):
        return Counters(n)

    def server(self, problem, n, rng):
        return None


def test_the_defaults():
    agents = Counters(3)
    assert len(agents) == 3
    assert agents.calling().tolist() == [False] * 3
    assert agents.say(WHO) == ()
    assert agents.urgency() is None
    assert agents.ellipsoids() is None
    assert agents.spent() is None
    assert agents.delta == 0.0
    assert agents.portrait() == {}


def test_nobody_understands_what_it_does_not_expect():
    said = Message("hello", WHO, {"x": np.zeros((3, 1))})
    with pytest.raises(WireError, match="Counters do not understand 'hello'"):
        Counters(3).answer(said)
    with pytest.raises(WireError, match="Counters do not understand 'hello'"):
        Counters(3).hear(Inbox(said, np.zeros(3, dtype=np.int64), WHO, WHO))


@pytest.mark.parametrize("call", [lambda one: one.choose(WHO, np.ones((3, 1, 1))), lambda one: one.learn(*[None] * 4)])
def test_choosing_and_learning_have_to_be_said(call):
    with pytest.raises(NotImplementedError):
        call(Population(3))


def test_servers_converse_and_show_nothing():
    assert Deaf().portrait() == {}
    assert Deaf().state() == {}
    assert list(Deaf().converse(WHO)) == []
    with pytest.raises(NotImplementedError):
        Server().converse(WHO)


def test_what_is_not_said_is_not_measured_either():
    """The whole loop on defaults: no messages, no privacy, no coverage, no portrait."""
    trace = fb.simulate(Counting(), ENV, 8, coverage=True, theory=True)
    assert trace.decisions[-1] == 24
    assert not trace.counts.any()
    assert not trace.syncs.any()
    assert trace.privacy is None
    assert trace.gauges == {}
    assert trace.portrait == {}
    assert trace.bounds == {}
    assert np.isnan(trace.coverage).all()


def test_what_is_kept_is_saved_for_all_and_for_each():
    agents = Counters(3)
    agents.learn(np.array([0, 2]), *[None] * 3)
    assert {name: array.tolist() for name, array in agents.state().items()} == {"count": [1, 0, 1]}
    assert agents.share(1)["count"].tolist() == [0]
    other = Counters(3)
    other.load(agents.state())
    assert other.count.tolist() == [1, 0, 1]


# --- agents may speak without having just learned


GREETING = Utterance("greeting", "peer", (vector("x", 1),))
FAREWELL = Utterance("farewell", "peer", (vector("y", 1),))


class Talkers(Counters):
    """Everybody greets in every round, whoever has learned; agent 0 says farewell as well."""

    def __init__(self, n):
        super().__init__(n)
        self.heard = []

    def say(self, learned):
        everybody = np.arange(len(self))
        greeting = Message(GREETING.kind, everybody, {"x": everybody[:, None].astype(np.float64)})
        return [greeting, Message(FAREWELL.kind, everybody[:1], {"y": np.full((1, 1), 9.0)})]

    def hear(self, inbox):
        letters = zip(inbox.to.tolist(), inbox.said.who[inbox.row].tolist(), strict=True)
        self.heard.append((inbox.said.kind, sorted(letter for letter in letters if letter[0] != letter[1])))


@parameters
class Talking(Counting):
    about: ClassVar[About] = About("talking", "own", "graph", "always", (FAREWELL, GREETING), "none", "none")

    def agents(self, problem, n, rng):
        return Talkers(n)


def test_several_kinds_of_message_in_one_round_from_whoever_speaks():
    """On a line of three: heard once for each kind, in declared order, by neighbours alone."""
    line = fb.environments.Linear(clients=3, dim=2, arms=4, schedule="round-robin")
    run = fb.Simulation(Talking(), line, 2, network=fb.network.Line())
    run.run()
    neighbours = [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert run.agents.heard == [("farewell", [(1, 0)]), ("greeting", neighbours)] * 2
    assert run.trace().peerlink.messages.tolist() == [5, 10]
    assert run.trace().decisions.tolist() == [1, 2]
