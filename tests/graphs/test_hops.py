"""Hop distances, against networkx's breadth-first search."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.graphs.hops import adjacency, diameter, joined, pairs_by_distance, power_graph

graphs = st.builds(
    lambda n, density, seed: nx.gnp_random_graph(n, density, seed=seed),
    st.integers(1, 12),
    st.floats(0, 0.6),
    st.integers(0, 10**6),
)


@given(graphs, st.integers(0, 6))
def test_pairs_are_those_at_that_distance(graph, radius):
    n = len(graph)
    graph.add_edge(0, 0)  # a loop is no link
    expected = dict(nx.all_pairs_shortest_path_length(nx.Graph((u, v) for u, v in graph.edges if u != v)))
    found = pairs_by_distance(graph, radius)
    assert len(found) == radius + 1
    for distance, pairs in enumerate(found):
        wanted = [(u, v) for u in range(n) for v in range(n) if expected.get(u, {u: 0}).get(v) == distance]
        assert list(zip(pairs.origin.tolist(), pairs.to.tolist(), strict=True)) == wanted, "by origin, then by `to`"


@given(graphs)
def test_parents_are_the_lowest_numbered_on_a_shortest_way(graph):
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    for h, pairs in enumerate(pairs_by_distance(graph, len(graph))):
        for origin, to, parent in zip(pairs.origin, pairs.to, pairs.parent, strict=True):
            nearer = [v for v in graph[to] if distance[origin][v] == h - 1]
            assert parent == (min(nearer) if h else origin)


def test_a_larger_radius_finds_the_same_and_more():
    graph = nx.relabel_nodes(nx.path_graph(40), dict(enumerate(np.random.default_rng(0).permutation(40).tolist())))
    near, all_pairs = pairs_by_distance(graph, 1), pairs_by_distance(graph, 39)
    assert sum(len(pairs.to) for pairs in all_pairs) == 40 * 40
    for few, many in zip(near, all_pairs, strict=False):
        for name in ("origin", "to", "parent"):
            np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


@given(graphs, st.integers(0, 5))
def test_power_graphs_join_those_within_the_radius(graph, radius):
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    nodes = range(len(graph))
    wanted = [[1 <= distance[u].get(v, 99) <= radius for v in nodes] for u in nodes]
    found = power_graph(graph, radius)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found.toarray(), wanted)
    np.testing.assert_array_equal(joined(pairs_by_distance(graph, radius), len(graph)).toarray(), wanted)


@given(st.integers(1, 30), st.floats(0, 0.3), st.integers(0, 10**6))
def test_the_diameter_is_the_largest_of_all_components(n, density, seed):
    graph = nx.gnp_random_graph(n, density, seed=seed)
    assert diameter(graph) == max(nx.diameter(graph.subgraph(nodes)) for nodes in nx.connected_components(graph))


@pytest.mark.parametrize(
    ("graph", "across"),
    [
        (nx.path_graph(50), 49),
        (nx.cycle_graph(51), 25),
        (nx.star_graph(9), 2),
        (nx.complete_graph(9), 1),
        (nx.empty_graph(3), 0),
        (nx.empty_graph(0), 0),
        (nx.hypercube_graph(6), 6),
    ],
)
def test_diameters_in_closed_form(graph, across):
    assert diameter(nx.convert_node_labels_to_integers(graph)) == across


def test_a_graph_without_nodes_has_no_pairs():
    found = pairs_by_distance(nx.empty_graph(0), 2)
    assert [len(pairs.to) for pairs in found] == [0, 0, 0]
    assert power_graph(nx.empty_graph(0), 2).shape == (0, 0)


def test_ten_thousand_nodes_keep_to_the_pairs_there_are():
    graph = nx.barabasi_albert_graph(10_000, 3, seed=1)
    found = pairs_by_distance(graph, 2)
    assert len(found[1].to) == 2 * graph.number_of_edges()
    hub = max(graph, key=graph.degree)
    two_away = {w for v in graph[hub] for w in graph[v]} - set(graph[hub]) - {hub}
    assert set(found[2].to[found[2].origin == hub].tolist()) == two_away


def test_a_negative_radius_is_refused():
    with pytest.raises(ValueError, match="radius must not be negative"):
        pairs_by_distance(nx.path_graph(3), -1)


def test_adjacency_is_symmetric_without_loops_and_multiplicities():
    graph = nx.Graph([(0, 1), (1, 2), (2, 2)])
    np.testing.assert_array_equal(adjacency(graph).toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_directed_graphs_are_refused(kind):
    with pytest.raises(ValueError, match="directed"):
        adjacency(kind([(0, 1)]))


def test_other_names_are_refused():
    with pytest.raises(ValueError, match=r"0\.\.n-1"):
        adjacency(nx.Graph([(1, 2)]))


def test_parallel_links_count_once():
    graph = nx.MultiGraph([(0, 1), (0, 1)])
    np.testing.assert_array_equal(adjacency(graph).toarray(), [[0, 1], [1, 0]])
