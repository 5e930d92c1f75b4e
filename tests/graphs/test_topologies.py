"""Networks: closed forms, laws of the random ones, connectedness, and parameters that do not fit."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedbandits import network as networks
from fedbandits.contract.catalogue import ConfigError, build
from fedbandits.data.graphs import FILES
from fedbandits.graphs import (
    NETWORKS,
    BarabasiAlbert,
    Caveman,
    Complete,
    EdgeList,
    ErdosRenyi,
    Facebook,
    Given,
    Gnutella,
    Grid,
    Line,
    MultiStar,
    RandomTree,
    Regular,
    Ring,
    Star,
    Tree,
    WattsStrogatz,
    topologies,
)
from fedbandits.graphs.hops import diameter

FIXTURES = Path(__file__).parents[1] / "fixtures"
LINKS = FIXTURES / "graphs" / "p2p-Gnutella08.txt"
FIXED = ("complete", "star", "line", "ring", "grid", "tree", "multi-star", "caveman")
RANDOM = ("random-tree", "regular", "erdos-renyi", "barabasi-albert", "watts-strogatz", "facebook", "gnutella")


@pytest.fixture(autouse=True)
def _made_up_data(monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))


def draw(network, n, seed=0):
    return network.graph(n, np.random.SeedSequence(seed))


def by_name(name):
    return EdgeList(path=str(LINKS)) if name == "edge-list" else NETWORKS[name]()


def links(graph):
    return set(map(frozenset, graph.edges))


def test_the_catalogue_is_complete():
    assert {*FIXED, *RANDOM, "edge-list", "given"} == set(NETWORKS)
    assert all(kind.about.name == name and kind.about.summary and kind.about.source for name, kind in NETWORKS.items())
    assert all(hasattr(networks, name) for name in networks.__all__)


@pytest.mark.parametrize("name", [*FIXED, *RANDOM, "edge-list"])
@pytest.mark.parametrize("n", [30, 41])
def test_defaults_make_connected_graphs(name, n):
    graph = draw(by_name(name), n if name != "regular" or n % 2 == 0 else n - 1)
    assert sorted(graph) == list(range(len(graph)))
    assert nx.is_connected(graph)
    assert not graph.is_directed()
    assert not graph.is_multigraph()
    assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("name", [*FIXED, *RANDOM, "edge-list"])
def test_the_seed_stands_for_the_graph(name):
    one, same, other = (links(draw(by_name(name), 30, seed)) for seed in (1, 1, 2))
    assert one == same
    assert (one == other) == (name in FIXED)


@pytest.mark.parametrize("name", [*FIXED, "random-tree", "erdos-renyi"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_agents(name, n):
    graph = draw(MultiStar(hubs=1) if name == "multi-star" else by_name(name), n)
    assert sorted(graph) == list(range(n))
    assert nx.is_connected(graph)


class TestClosedForms:
    def test_complete_star_line_ring(self):
        assert links(draw(Complete(), 4)) == links(nx.complete_graph(4))
        assert links(draw(Star(), 5)) == {frozenset((0, leaf)) for leaf in (1, 2, 3, 4)}
        assert links(draw(Line(), 4)) == {frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3))}
        assert links(draw(Ring(), 4)) == {frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3), (0, 3))}
        assert links(draw(Ring(), 2)) == {frozenset((0, 1))}

    @pytest.mark.parametrize(("n", "rows", "columns"), [(12, 3, 4), (25, 5, 5), (20, 4, 5), (2, 1, 2)])
    def test_a_full_grid(self, n, rows, columns):
        lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
        assert links(draw(Grid(), n)) == links(lattice)

    @given(st.integers(1, 80))
    def test_any_other_grid_lacks_the_end_of_its_last_row(self, n):
        width = int(np.ceil(np.sqrt(n)))
        lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(width, width), ordering="sorted")
        assert links(draw(Grid(), n)) == links(lattice.subgraph(range(n)))

    def test_trees(self):
        assert links(draw(Tree(branching=3), 13)) == links(nx.balanced_tree(3, 2))
        assert links(draw(Tree(branching=1), 5)) == links(nx.path_graph(5))
        assert links(draw(Tree(), 6)) == {frozenset(pair) for pair in ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5))}

    def test_multi_star(self):
        graph = draw(MultiStar(hubs=3), 11)
        assert [graph.degree[hub] for hub in range(3)] == [5, 5, 4], "two hubs and 3, 3 or 2 leaves"
        assert all(list(graph[leaf]) == [leaf % 3] for leaf in range(3, 11))
        assert diameter(graph) == 3
        assert links(draw(MultiStar(hubs=1), 6)) == links(draw(Star(), 6))

    @pytest.mark.parametrize(("cliques", "size"), [(2, 3), (4, 5), (7, 4)])
    def test_equal_cavemen(self, cliques, size):
        expected = nx.connected_caveman_graph(cliques, size)
        assert links(draw(Caveman(size=size), cliques * size)) == links(expected)

    @given(st.integers(1, 60), st.integers(2, 9))
    def test_other_cavemen_are_as_equal_as_possible_and_connected(self, n, size):
        graph = draw(Caveman(size=size), n)
        assert nx.is_connected(graph)
        cliques = int(np.ceil(n / size))
        assert max(dict(graph.degree).values()) <= size + 1
        if cliques == 1:
            assert links(graph) == links(nx.complete_graph(n))
        sizes = [n // cliques + (at < n % cliques) for at in range(cliques)]
        within = sum(k * (k - 1) // 2 for k in sizes)
        added = sum(k <= 2 for k in sizes) if cliques > 1 else 0
        assert graph.number_of_edges() == within + added, "elsewhere links are moved"


class TestLaws:
    def test_random_trees_are_uniform(self):
        drawn = Counter(frozenset(links(draw(RandomTree(), 4, seed))) for seed in range(1_600))
        assert len(drawn) == 4**2
        assert chisquare(list(drawn.values())).pvalue > 1e-3

    def test_erdos_renyi_links_are_independent_of_each_other(self):
        graph = draw(ErdosRenyi(p=0.3), 200)
        assert abs(graph.number_of_edges() - 0.3 * 19_900) < 4 * np.sqrt(0.3 * 0.7 * 19_900)
        assert links(draw(ErdosRenyi(p=1), 6)) == links(nx.complete_graph(6))

    def test_connected_graphs_keep_their_relative_chances(self):
        """Three agents, p = 1/2: three lines and one triangle, each as likely as the others."""
        drawn = Counter(frozenset(links(draw(ErdosRenyi(p=0.5), 3, seed))) for seed in range(800))
        assert len(drawn) == 4
        assert chisquare(list(drawn.values())).pvalue > 1e-3

    def test_barabasi_albert(self):
        graph = draw(BarabasiAlbert(m=5), 200)
        assert graph.number_of_edges() == 5 * 195
        assert all(sum(v < u for v in graph[u]) == 5 for u in range(6, 200)), "each newcomer to five who came before"
        assert diameter(graph) == 4, "as Dubey (2022) has it for 200 agents and m = 5"

    def test_watts_strogatz(self):
        assert links(draw(WattsStrogatz(k=4, p=0), 9)) == links(nx.circulant_graph(9, [1, 2]))
        graph = draw(WattsStrogatz(k=6, p=0.2), 100)
        assert graph.number_of_edges() == 300
        assert links(graph) != links(nx.circulant_graph(100, [1, 2, 3]))

    def test_regular(self):
        assert set(dict(draw(Regular(degree=3), 20).degree).values()) == {3}
        assert nx.is_connected(draw(Regular(degree=2), 8)), "a ring, and not two"

    def test_dense_random_graphs_have_the_diameter_of_the_thesis(self):
        assert diameter(draw(ErdosRenyi(p=0.7), 200)) == 2


class TestDoesNotFit:
    @pytest.mark.parametrize(
        ("network", "n", "said"),
        [
            (BarabasiAlbert(m=5), 5, r"barabasi-albert: m: must be below 5, the number of agents \(got 5\)"),
            (WattsStrogatz(k=6), 6, r"watts-strogatz: k: must be below 6, the number of agents \(got 6\)"),
            (MultiStar(hubs=4), 3, r"multi-star: hubs: must be at most 3, the number of agents \(got 4\)"),
            (Regular(degree=4), 4, r"regular: degree: must be below 4, the number of agents \(got 4\)"),
            (Regular(degree=3), 7, r"regular: degree: must be even for an odd number of agents, 7 \(got 3\)"),
            (ErdosRenyi(p=0.001), 40, r"erdos-renyi: none of 1000 .* 40 agents .*; p: raise it above .* = 0\.092"),
            (Gnutella(), 46, r"gnutella: its largest connected component has 45 nodes, too few for 46 agents"),
            (Facebook(), 51, r"facebook: its largest connected component has 50 nodes.*at most 50 agents"),
            (EdgeList(path="no-such-file"), 4, "no-such-file: the file of links cannot be read"),
        ],
    )
    def test_the_error_names_the_field_and_the_fix(self, network, n, said):
        with pytest.raises(ConfigError, match=said):
            draw(network, n)

    @pytest.mark.parametrize(
        ("network", "said"),
        [
            (Regular(degree=2), "regular: none of 3 .*; degree: raise it to 3 or more"),
            (WattsStrogatz(k=2, p=1), "watts-strogatz: none of 3 .*; k: raise it; or lower p"),
        ],
    )
    def test_graphs_that_are_seldom_connected(self, network, said, monkeypatch):
        monkeypatch.setattr(topologies, "ATTEMPTS", 3)
        with pytest.raises(ConfigError, match=said):
            draw(network, 400)

    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("erdos-renyi", {"p": 0}),
            ("erdos-renyi", {"p": 1.5}),
            ("barabasi-albert", {"m": 0}),
            ("watts-strogatz", {"k": 3}),
            ("watts-strogatz", {"p": -0.1}),
            ("tree", {"branching": 0}),
            ("multi-star", {"hubs": 0}),
            ("caveman", {"size": 1}),
            ("regular", {"degree": 1}),
            ("facebook", {"sampling": "snowball"}),
            ("edge-list", {"path": ""}),
            ("edge-list", {}),
            ("ring", {"ttl": -1}),
        ],
    )
    def test_impossible_parameters(self, name, parameters):
        for making in (lambda: build(NETWORKS, name, parameters, "network"), lambda: NETWORKS[name](**parameters)):
            with pytest.raises(ConfigError, match=rf"{name}: {next(iter(parameters), 'path')}: "):
                making()


class TestSampled:
    def test_the_whole_component_is_the_component(self):
        for method in ("walk", "ball"):
            graph = draw(EdgeList(path=str(LINKS), sampling=method), 45)
            assert graph.number_of_edges() == 87
        assert links(draw(Gnutella(), 45)) == links(draw(EdgeList(path=str(LINKS)), 45))

    def test_methods_differ(self):
        assert links(draw(Facebook(sampling="walk"), 20)) != links(draw(Facebook(sampling="ball"), 20))

    def test_conditions_come_along(self):
        assert Facebook(ttl="half-diameter", loss=0.1).faults.loss == 0.1


REAL = Path(os.environ.get("FEDBANDITS_DATA", "")) / "graphs"


@pytest.mark.parametrize("kind", [Facebook, Gnutella])
def test_subgraphs_of_500_nodes_of_the_published_graphs(kind, monkeypatch):
    if not (REAL / FILES[kind.about.name]).is_file():
        pytest.skip(f"{FILES[kind.about.name]} is not in FEDBANDITS_DATA/graphs")
    monkeypatch.setenv("FEDBANDITS_DATA", str(REAL.parent))
    for method in ("walk", "ball"):
        graph = draw(kind(sampling=method), 500)
        assert len(graph) == 500
        assert nx.is_connected(graph)


def test_a_graph_of_ones_own():
    graph = draw(Given.of(nx.path_graph(3)), 3)
    assert links(graph) == links(nx.path_graph(3))
