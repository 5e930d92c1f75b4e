"""Turns and talk of agents on graphs: compiled functions make the run that Python would have made, letter by letter."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from conformance.typical import typical_first
from fedbandits.algorithms.armed.estimators import rows
from fedbandits.algorithms.armed.fed_ucb1 import FedUCB1Agents
from fedbandits.network import ErdosRenyi, Ring
from fedbandits.transport.relay import Relay

COINS = "bernoulli:clients=9,arms=4"
TAILS = "stable:clients=9,arms=4,alpha=1.5"
PLAYED = {
    "fed-ucb1": COINS,
    "fed-ucb1:mean=trimmed,scale=0.1": TAILS,
    "fed-ucb1-best:mean=trimmed,scale=0.1": TAILS,
    "cent-ucb1:mean=trimmed,scale=0.1": TAILS,
    "consensus-ucb": "gaussian:clients=9,arms=4",
}
told = Relay.round
CROWD = ErdosRenyi(p=0.2, ttl=2)
TWO_AND_LONERS = nx.Graph([(0, 4)])
TWO_AND_LONERS.add_nodes_from(range(9))


def runs(algorithm, environment, horizon, network, *, pieces=()):
    """The same run twice: played by compiled functions, perhaps in pieces, and step by step."""
    played, stepped = (fb.Simulation(algorithm, environment, horizon, seed=3, network=network) for _ in range(2))
    played.compiled, stepped.compiled = True, False
    for steps in pieces:
        played.run(steps)
    played.run()
    stepped.run()
    return played, stepped


def same(played, stepped):
    one, other = played.state(), stepped.state()
    assert one.keys() == other.keys()
    assert not [
        name for name in one if not np.array_equal(one[name], other[name]) or one[name].dtype != other[name].dtype
    ]


@pytest.mark.parametrize(
    ("network", "life"),
    [
        (ErdosRenyi(p=0.4, ttl=1), 1),
        (ErdosRenyi(p=0.4, ttl=2), 2),
        (Ring(ttl=3), 3),
        (Ring(ttl=0), 0),  # nobody is asked to speak
        (TWO_AND_LONERS, 1),
    ],
    ids=["neighbours", "two hops", "ring", "silence", "loners"],
)
@pytest.mark.parametrize("algorithm", typical_first(PLAYED, playing=True))
def test_both_ways_make_one_run(algorithm, network, life):
    played, stepped = runs(algorithm, PLAYED[algorithm], 150, network, pieces=(1, 2, 13, 1))
    walked = min(life, 1 if algorithm.startswith("consensus") else 3)  # until as much is under way as can be
    assert played.played == 150 - max(walked - 1, min(life, 1))
    assert stepped.played == 0
    same(played, stepped)
    assert (played.ledger.peer.messages > 0) == (life > 0)


@pytest.mark.parametrize(
    "algorithm",
    [
        "fed-ucb1:mean=trimmed,scale=0.1",
        pytest.param("fed-ucb1:mean=trimmed,scale=0.1,threshold=printed", marks=pytest.mark.slow),
        pytest.param("fed-ucb1:mean=median-of-means,scale=0.1", marks=pytest.mark.slow),
        "fed-ucb1-best:mean=trimmed,scale=0.1",
        "cent-ucb1:mean=trimmed,scale=0.1",
        "consensus-ucb:noise=1",
    ],
)
@pytest.mark.parametrize("network", [ErdosRenyi(p=0.3, ttl=2), Ring(ttl=2)], ids=["dense", "sparse"])
def test_many_agents_and_more_arms_than_are_taken_side_by_side(algorithm, network):
    """Rewards are added up for many receivers at once where letters are many, and letter by letter where they are few
    or some of them are outliers.
    """
    tails = "stable:clients=100,arms=17,alpha=1.9"
    played, stepped = runs(algorithm, tails, 120, network, pieces=(40,))
    assert played.played > 100
    same(played, stepped)


def test_letters_of_one_arm_with_and_without_outliers_among_them():
    """Where nearly all letters are of one arm, they are added up for some receivers at a time, except in rounds with a
    sample that is too heavy; both ways are taken here, with a number of agents that leaves a row unfilled.
    """
    played, stepped = (
        fb.Simulation(
            "fed-ucb1:mean=trimmed,scale=0.01", "stable:clients=45,arms=3,alpha=1.5", 10**5, seed=3, network=CROWD
        )
        for _ in range(2)
    )
    played.compiled, stepped.compiled = True, False
    played.run(400)
    stepped.run(400)
    assert played.played > 390
    same(played, stepped)
    counts, waiting = played.agents.known.counts, played.agents.known.waiting.lengths
    most = np.arange(45), counts.argmax(axis=1)
    assert (counts[most] > 0.9 * counts.sum(axis=1)).all()
    assert 0 < waiting[most].max() < 100


def test_a_run_is_resumed_with_letters_under_way():
    def fresh():
        made = fb.Simulation("fed-ucb1-best:mean=trimmed,scale=0.1", TAILS, 120, seed=1, network=Ring(ttl=3))
        made.compiled = True
        return made

    whole, begun, again = fresh(), fresh(), fresh()
    whole.run()
    begun.run(47)
    again.load(begun.state())
    again.run()
    assert again.played > 70
    same(again, whole)


@pytest.mark.parametrize("life", [0, 1])
def test_lists_that_are_full_are_enlarged_in_between(monkeypatch, life):
    """Samples that wait are kept in lists: in a round after which one could be too long, Python has the floor."""
    monkeypatch.setattr(rows, "_SMALLEST", 2)
    everybody = fb.network.Complete(ttl=life)
    rounds = []
    monkeypatch.setattr(Relay, "round", lambda self, *args: rounds.append(args[2]) or told(self, *args))
    played, stepped = (
        fb.Simulation("fed-ucb1:mean=trimmed", "stable:clients=9,arms=2,alpha=1.9", 10**6, seed=3, network=everybody)
        for _ in range(2)
    )
    played.compiled, stepped.compiled = True, False
    played.run(40)
    assert played.agents.known.waiting.lengths.max() > 12
    assert played.played == 40 - life
    assert life == 0 or 1 < len(rounds) < 20
    stepped.run(40)
    same(played, stepped)


@pytest.mark.parametrize(
    ("mean", "environment"),
    [
        ("trimmed", TAILS),
        pytest.param("trimmed,threshold=printed", TAILS, marks=pytest.mark.slow),
        pytest.param("median-of-means", TAILS, marks=pytest.mark.slow),
        pytest.param("catoni", "gaussian:clients=9,arms=4", marks=pytest.mark.slow),
        pytest.param("shortest-interval", "gaussian:clients=9,arms=4", marks=pytest.mark.slow),
    ],
)
def test_agents_alone_with_other_means(mean, environment):
    """Lists grow while nobody but compiled functions looks at them."""
    played, stepped = (fb.Simulation(f"ucb1:scale=0.1,mean={mean}", environment, 500, seed=2) for _ in range(2))
    played.compiled, stepped.compiled = True, False
    played.run()
    stepped.run()
    assert played.played == 500
    same(played, stepped)


@pytest.mark.parametrize(
    ("algorithm", "environment", "network"),
    [
        ("fed-ucb1", COINS, Ring(ttl=1, loss=0.1)),
        ("fed-ucb1", f"{COINS},stragglers=0.3", Ring(ttl=1)),
        ("fed-ucb1", f"{COINS},schedule=random", Ring(ttl=1)),
        ("fed-ucb1:listens=clique", COINS, Ring(ttl=1)),
    ],
    ids=["losses", "absences", "one at a time", "cliques"],
)
def test_where_anything_else_happens_it_goes_step_by_step(algorithm, environment, network):
    played, stepped = runs(algorithm, environment, 60, network)
    assert played.played == 0
    same(played, stepped)


def test_who_says_something_else_is_not_spoken_for():
    class Taciturn(FedUCB1Agents):
        def say(self, learned):
            return super().say(learned[learned % 2 == 0])

    algorithm = fb.algorithms.FedUCB1()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedbandits.algorithms.armed.fed_ucb1.FedUCB1Agents", Taciturn)
        played, stepped = runs(algorithm, COINS, 60, Ring(ttl=1))
    assert played.played == 0
    same(played, stepped)
