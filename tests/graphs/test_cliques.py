"""Maximal cliques against brute force and networkx; the bound on the work, and the cover that takes over."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.algorithms.clustered.clusters import clusters_of, partition
from fedbandits.graphs.cliques import TooManyCliques, greedy_cover, maximal_cliques


def random_graph(n, density, seed):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    return upper | upper.T


def as_sets(cliques):
    return {frozenset(clique.tolist()) for clique in cliques}


def brute_force(adjacent):
    """Every set of nodes that is a clique and that no other node extends."""
    n = len(adjacent)
    near = adjacent | np.eye(n, dtype=bool)
    cliques = [
        frozenset(nodes)
        for size in range(1, n + 1)
        for nodes in combinations(range(n), size)
        if near[np.ix_(nodes, nodes)].all()
    ]
    return {clique for clique in cliques if not any(clique < other for other in cliques)}


def moon_moser(triangles):
    """The complement of disjoint triangles: of all graphs of as many nodes the one with most maximal cliques."""
    group = np.arange(3 * triangles) // 3
    return group[:, None] != group[None, :]


graphs = st.builds(random_graph, st.integers(1, 8), st.floats(0, 1), st.integers(0, 10**6))
large_graphs = st.builds(random_graph, st.integers(1, 40), st.floats(0, 0.8), st.integers(0, 10**6))


@given(adjacent=graphs)
def test_all_maximal_cliques_are_found_once(adjacent):
    cliques = maximal_cliques(adjacent)
    assert as_sets(cliques) == brute_force(adjacent)
    assert len(as_sets(cliques)) == len(cliques)


@given(adjacent=large_graphs)
def test_networkx_finds_the_same(adjacent):
    expected = {frozenset(clique) for clique in nx.find_cliques(nx.from_numpy_array(adjacent))}
    assert as_sets(maximal_cliques(adjacent)) == expected


def test_largest_first_isolated_nodes_last():
    adjacent = np.zeros((6, 6), dtype=bool)
    for i, j in ((3, 4), (3, 5), (4, 5), (0, 2)):
        adjacent[i, j] = adjacent[j, i] = True
    assert [clique.tolist() for clique in maximal_cliques(adjacent)] == [[3, 4, 5], [0, 2], [1]]


def test_loops_do_not_matter():
    adjacent = random_graph(12, 0.5, 0)
    assert as_sets(maximal_cliques(adjacent | np.eye(12, dtype=bool))) == as_sets(maximal_cliques(adjacent))


@pytest.mark.parametrize("find", [maximal_cliques, greedy_cover])
def test_a_graph_without_nodes_has_no_cliques(find):
    assert find(np.zeros((0, 0), dtype=bool)) == []


@pytest.mark.parametrize("find", [maximal_cliques, greedy_cover])
@pytest.mark.parametrize("bad", [np.zeros((2, 3), dtype=bool), np.array([[0, 1], [0, 0]], dtype=bool)])
def test_what_is_not_a_graph_is_refused(find, bad):
    with pytest.raises(ValueError, match="symmetric"):
        find(bad)


@given(adjacent=large_graphs)
def test_the_cover_is_a_partition_into_cliques(adjacent):
    cover = greedy_cover(adjacent)
    assert sorted(np.concatenate(cover).tolist()) == list(range(len(adjacent)))
    for clique in cover:
        assert (adjacent | np.eye(len(adjacent), dtype=bool))[np.ix_(clique, clique)].all()


@given(adjacent=graphs)
def test_the_first_clique_of_the_cover_cannot_be_extended(adjacent):
    """Greedy, but never short of maximal among the nodes that were free."""
    cover = sorted(greedy_cover(adjacent), key=lambda clique: -adjacent[clique].sum(axis=1).max())
    free = np.ones(len(adjacent), dtype=bool)
    assert any(not (free & adjacent[clique].all(axis=0)).any() for clique in cover)


class TestBound:
    def test_the_worst_graph_has_that_many(self):
        assert len(maximal_cliques(moon_moser(6))) == 3**6

    def test_the_limit_counts_branches(self):
        """n disjoint edges: a search of a few branches for each."""
        adjacent = np.kron(np.eye(50, dtype=bool), np.ones((2, 2), dtype=bool))
        assert len(maximal_cliques(adjacent, limit=400)) == 50
        with pytest.raises(TooManyCliques, match="more than 40"):
            maximal_cliques(adjacent, limit=40)

    def test_beyond_it_the_cover_keeps_the_guarantee(self):
        """3^20 maximal cliques, three and a half thousand millions: enumeration gives up, the cover does not."""
        adjacent = moon_moser(20)
        with pytest.raises(TooManyCliques):
            maximal_cliques(adjacent)
        member = clusters_of(adjacent)
        assert member.sum() == 60
        assert member.any(axis=0).all()
        for cluster in member:
            inside = adjacent[np.ix_(cluster, cluster)]
            np.testing.assert_array_equal(inside, ~np.eye(len(inside), dtype=bool))
        assert len(member) == 3, "here greedy cliques are even the best cover"

    def test_within_it_clusters_are_the_maximal_cliques(self):
        adjacent = random_graph(15, 0.5, 1)
        member = clusters_of(adjacent)
        assert {frozenset(np.flatnonzero(row).tolist()) for row in member} == as_sets(maximal_cliques(adjacent))

    def test_disjoint_clusters_of_2000_agents_need_no_fallback(self):
        labels = np.random.default_rng(0).integers(20, size=2000)
        adjacent = (labels[:, None] == labels[None, :]) & ~np.eye(2000, dtype=bool)
        found = as_sets(maximal_cliques(adjacent))
        assert found == {frozenset(np.flatnonzero(row).tolist()) for row in partition(labels)}
