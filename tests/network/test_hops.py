"""Hop distances, against networkx's breadth-first search."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.network.hops import adjacency, pairs_by_distance


@given(st.integers(1, 12), st.floats(0, 0.6), st.integers(0, 10**6), st.integers(0, 6))
def test_pairs_are_those_at_that_distance(n, density, seed, radius):
    graph = nx.gnp_random_graph(n, density, seed=seed)
    graph.add_edge(0, 0)  # a loop is no link
    expected = dict(nx.all_pairs_shortest_path_length(nx.Graph((u, v) for u, v in graph.edges if u != v)))
    found = pairs_by_distance(graph, radius)
    assert len(found) == radius + 1
    for distance, pairs in enumerate(found):
        wanted = {(u, v) for u in range(n) for v in range(n) if expected.get(u, {u: 0}).get(v) == distance}
        assert len(pairs.origin) == len(wanted)
        assert set(zip(pairs.origin.tolist(), pairs.to.tolist(), strict=True)) == wanted


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
