"""What people give as algorithms, environments and networks, and what they are told if it is none."""

from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import pytest

import fedbandits as fb
from fedbandits.simulation.arguments import algorithm_of, algorithms_of, check_network, environment_of, network_of

DIS = fb.algorithms.DisLinUCB
LINEAR = fb.environments.Linear


class Lender:
    """An environment of somebody's own: neither a dataclass nor in the catalogue."""

    def __init__(self, clients=3):
        self.clients = clients

    def world(self, horizon, seed):
        return LINEAR(clients=self.clients, dim=2, arms=3).world(horizon, seed)


@dataclass(frozen=True)
class Agentless:
    about: ClassVar = DIS.about
    rate: float = 1.0

    def server(self, problem, n):
        return None


class Demanding(Lender):
    def __init__(self, clients, seasons):
        super().__init__(clients)


@pytest.mark.parametrize("given", [DIS(threshold="theory"), DIS, "dislinucb", "dislinucb:threshold=theory"])
def test_an_algorithm_as_a_value_a_class_or_in_words(given):
    assert algorithm_of(given) == DIS()


@pytest.mark.parametrize("given", [LINEAR(), LINEAR, "linear", "linear:clients=50"])
def test_an_environment_as_a_value_a_class_or_in_words(given):
    assert environment_of(given) == environment_of("linear")


def test_an_environment_needs_a_world_and_nothing_else():
    mine = Lender()
    assert environment_of(mine) is mine
    assert environment_of(Lender).clients == 3


@pytest.mark.parametrize("given", [fb.network.Ring(), fb.network.Ring, "ring", "ring:ttl=1"])
def test_a_network_as_a_value_a_class_or_in_words(given):
    assert network_of(given) == fb.network.Ring()


def test_a_graph_is_a_network_of_one_hop_and_nothing_is_none():
    assert network_of(nx.path_graph(4)) == fb.network.Given.of(nx.path_graph(4))
    assert network_of(None) is None


@pytest.mark.parametrize(
    ("find", "given", "match"),
    [
        (
            algorithm_of,
            Agentless(),
            r"^algorithm: Agentless\(rate=1.0\) is no algorithm \(it lacks agents\(problem, n, rng\)\)",
        ),
        (algorithm_of, Agentless, "Agentless is no algorithm .it lacks agents"),
        (
            algorithm_of,
            3,
            r"^algorithm: 3 is no algorithm \(it lacks about, agents\(.*give one of fedbandits.algorithms",
        ),
        (algorithm_of, LINEAR(clients=2), "is no algorithm but an environment: the algorithm comes first"),
        (algorithm_of, "dislinuc", "unknown algorithm 'dislinuc'; did you mean 'dislinucb'"),
        (algorithm_of, "dislinucb:treshold=2", "dislinucb has no parameter 'treshold'; did you mean 'threshold'"),
        (algorithm_of, "low=dislinucb", "there is nothing to be labelled here; write NAME:KEY=VALUE"),
        (environment_of, DIS, "DisLinUCB is no environment but an algorithm: the algorithm comes first"),
        (environment_of, {"clients": 3}, r"is no environment \(it lacks world\(horizon, seed\)\); give one of"),
        (
            environment_of,
            Demanding,
            r"Demanding has no default for clients and seasons; .* Demanding\(clients=\.\.\., sea",
        ),
        (environment_of, object(), r"^environment: object\(\) is no environment"),
        (environment_of, "clients=3", "nothing to be labelled"),
        (network_of, 3, "network: 3 is no network; give one of fedbandits.network, its name"),
        (network_of, fb.network.Given, r"Given has no default for nodes; give one that is made: Given\(nodes=\.\.\.\)"),
        (network_of, LINEAR, "Linear is no network"),
    ],
)
def test_what_is_none_is_told_what_to_write(find, given, match):
    with pytest.raises(fb.ConfigError, match=match):
        find(given)


def test_labels_of_a_mapping_are_kept():
    assert algorithms_of({"a": "random", "b": DIS, "c": DIS(threshold=2)}) == {
        "a": fb.algorithms.Random(),
        "b": DIS(),
        "c": DIS(threshold=2),
    }


def test_a_list_is_labelled_by_names_and_by_what_differs():
    given = ["random", DIS(threshold=1), DIS, "low=dislinucb:threshold=0.5", DIS(threshold=1, ridge=2)]
    assert algorithms_of(given) == {
        "random": fb.algorithms.Random(),
        "dislinucb ridge 1.0, threshold 1.0": DIS(threshold=1),
        "dislinucb ridge 1.0, threshold theory": DIS(),
        "low": DIS(threshold=0.5),
        "dislinucb ridge 2.0, threshold 1.0": DIS(threshold=1, ridge=2),
    }


def test_namesakes_may_differ_in_their_stages():
    given = ["dislinucb|quantise:bits=8", "dislinucb|quantise:bits=4", "dislinucb"]
    assert list(algorithms_of(given)) == [
        "dislinucb|quantise quantise bits 8",
        "dislinucb|quantise quantise bits 4",
        "dislinucb",
    ]


@pytest.mark.parametrize("one", [DIS(), DIS, "dislinucb", iter([DIS])])
def test_one_alone_is_a_list_of_one(one):
    assert algorithms_of(one) == {"dislinucb": DIS()}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (["random", fb.algorithms.Random()], "random is given more than once with the same parameters; leave one out"),
        (["a=random", "a=dislinucb"], "the label 'a' is used twice"),
        (["dislinucb=random", "dislinucb"], "the label 'dislinucb' is used twice"),
        ({1: "random"}, "labels must be words"),
        ({"mine": Agentless()}, r"algorithms\.mine: Agentless\(rate=1.0\) is no algorithm"),
        ({"mine": None}, r"algorithms\.mine: None is no algorithm"),
        ([DIS(), 3], "algorithms: 3 is no algorithm"),
    ],
)
def test_what_cannot_be_labelled_is_refused(given, match):
    with pytest.raises(fb.ConfigError, match=match):
        algorithms_of(given)


def test_a_network_that_nobody_uses_is_refused():
    star = {"dis": DIS(), "random": fb.algorithms.Random(), "central": fb.algorithms.CentralLinUCB()}
    with pytest.raises(
        fb.ConfigError,
        match=r"^network: dis and central talk to a server and random talks to nobody, so that it would not be used; "
        r"leave it out .*, or add an algorithm that talks on a graph, such as [a-z0-9-]+$",
    ):
        check_network(star, fb.network.Ring())
    check_network(star, None)
    check_network({**star, "gossip": fb.algorithms.FedUCB1()}, fb.network.Ring())


def test_a_network_that_is_needed_is_asked_for():
    with pytest.raises(fb.ConfigError, match=r"^peers: fed-ucb1 talks on a graph: give a network"):
        check_network({"dis": DIS(), "peers": fb.algorithms.FedUCB1()}, None)
