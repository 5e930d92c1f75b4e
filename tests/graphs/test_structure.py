"""Clique covers, independent and dominating sets: against brute force, closed forms and each other."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedbandits.graphs import structure
from fedbandits.graphs.cliques import largest_clique
from fedbandits.graphs.hops import adjacency, power_graph
from fedbandits.graphs.structure import clique_cover, dominating_set, independent_set

ALL = (dominating_set, independent_set, clique_cover)
SMALL = [nx.convert_node_labels_to_integers(graph) for graph in nx.graph_atlas_g() if len(graph) <= 6]
"""Every graph of up to 6 nodes, up to isomorphism: 209 of them."""


def random_graph(n, density, seed):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    return upper | upper.T


def dense(graph):
    return adjacency(graph).toarray().astype(bool)


def independent(adjacent, nodes):
    return not adjacent[np.ix_(nodes, nodes)].any()


def clique(adjacent, nodes):
    return adjacent[np.ix_(nodes, nodes)].sum() == len(nodes) * (len(nodes) - 1)


def dominating(adjacent, nodes):
    return (
        len(nodes) == len(set(nodes)) and (adjacent[:, nodes].any(axis=1) | np.isin(range(len(adjacent)), nodes)).all()
    )


def brute_force(adjacent):
    """Domination, independence and clique covering number: all sets of nodes, and all ways to take cliques away."""
    n = len(adjacent)
    subsets = [list(nodes) for size in range(n + 1) for nodes in combinations(range(n), size)]
    psi = next(len(nodes) for nodes in subsets if dominating(adjacent, nodes))
    alpha = max(len(nodes) for nodes in subsets if independent(adjacent, nodes))
    cliques = [sum(1 << node for node in nodes) for nodes in subsets if nodes and clique(adjacent, nodes)]

    @cache
    def fewest(left):
        lowest = left & -left
        return min(1 + fewest(left & ~each) for each in cliques if each & lowest and not each & ~left) if left else 0

    return psi, alpha, fewest((1 << n) - 1)


def check(adjacent, optima):
    """All three are what they say they are, their bounds hold, and exact ones are optima."""
    leaders, strangers, cover = (find(adjacent) for find in ALL)
    assert dominating(adjacent, leaders.members)
    assert independent(adjacent, strangers.members)
    assert len(cover.label) == len(adjacent)
    assert len(cover.cliques) == cover.size
    assert sorted(node for nodes in cover.cliques for node in nodes) == list(range(len(adjacent)))
    assert all(clique(adjacent, nodes) for nodes in cover.cliques)
    psi, alpha, cliques = optima
    assert leaders.bound <= psi <= leaders.size
    assert strangers.size <= alpha <= strangers.bound
    assert cover.bound <= cliques <= cover.size
    for found, optimum in zip((leaders, strangers, cover), optima, strict=True):
        assert found.exact == (found.gap == 0) == (found.size == found.bound)
        assert not found.exact or found.size == optimum
    return leaders, strangers, cover


def test_the_order_of_the_three_on_all_small_graphs():
    for graph in SMALL:
        psi, alpha, cliques = brute_force(dense(graph))
        assert psi <= alpha <= cliques <= len(graph)


def test_exact_on_all_small_graphs():
    for graph in SMALL:
        adjacent = dense(graph)
        assert all(found.exact for found in check(adjacent, brute_force(adjacent)))


@given(st.integers(7, 9), st.floats(0.1, 0.9), st.integers(0, 10**6))
@settings(max_examples=40)
def test_exact_on_random_graphs(n, density, seed):
    adjacent = random_graph(n, density, seed)
    assert all(found.exact for found in check(adjacent, brute_force(adjacent)))


@given(st.integers(1, 9), st.floats(0.1, 0.9), st.integers(0, 10**6))
@settings(max_examples=40)
def test_greedy_methods_alone_keep_their_bounds(n, density, seed):
    adjacent = random_graph(n, density, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "THOROUGH", 0)
        check(adjacent, brute_force(adjacent))


def without_search(patch):
    """Neither branch and bound: integer programming has to do it."""
    patch.setattr(structure, "_DEEPEST", 0)
    patch.setattr(structure, "largest_clique", lambda adjacent: (np.empty(0, dtype=np.int64), False))


@given(st.integers(5, 9), st.floats(0.2, 0.8), st.integers(0, 10**6))
@settings(max_examples=40)
def test_integer_programming_alone_is_exact(n, density, seed):
    adjacent = random_graph(n, density, seed)
    with pytest.MonkeyPatch.context() as patch:
        without_search(patch)
        assert all(found.exact for found in check(adjacent, brute_force(adjacent)))


def test_search_and_integer_programming_agree_on_graphs_beyond_brute_force(monkeypatch):
    graphs = [random_graph(24, density, seed) for density in (0.15, 0.3, 0.5) for seed in range(2)]
    searched = [[find(adjacent) for find in ALL] for adjacent in graphs]
    without_search(monkeypatch)
    programmed = [[find(adjacent) for find in ALL] for adjacent in graphs]
    for ones, others in zip(searched, programmed, strict=True):
        assert all(found.exact for found in ones + others)
        assert [found.size for found in ones] == [found.size for found in others]
        psi, alpha, cliques = (found.size for found in ones)
        assert psi <= alpha <= cliques


class TestClosedForms:
    @pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 40])
    @pytest.mark.parametrize("gamma", [1, 2, 3, 7])
    def test_a_line(self, n, gamma):
        """Cliques of gamma + 1 neighbours in a row; leaders gamma hops from both ends of 2 gamma + 1."""
        power = power_graph(nx.path_graph(n), gamma)
        leaders, strangers, cover = (find(power) for find in ALL)
        assert leaders.exact
        assert strangers.exact
        assert cover.exact
        assert strangers.size == cover.size == math.ceil(n / (gamma + 1))
        assert leaders.size == math.ceil(n / (2 * gamma + 1))

    @pytest.mark.parametrize("n", [3, 4, 5, 12, 13, 31])
    @pytest.mark.parametrize("gamma", [1, 2, 3])
    def test_a_ring(self, n, gamma):
        power = power_graph(nx.cycle_graph(n), gamma)
        leaders, strangers, cover = (find(power) for find in ALL)
        complete = gamma >= n // 2
        assert strangers.size == strangers.bound == (1 if complete else n // (gamma + 1))
        assert leaders.size == leaders.bound == math.ceil(n / (2 * gamma + 1))
        assert cover.exact
        if n > 3 * gamma:  # cliques do not go round
            assert cover.size == math.ceil(n / (gamma + 1))

    def test_a_star_and_a_complete_graph(self):
        star, complete = dense(nx.star_graph(9)), dense(nx.complete_graph(10))
        assert [(found.size, found.bound) for found in (find(star) for find in ALL)] == [(1, 1), (9, 9), (9, 9)]
        assert [(found.size, found.bound) for found in (find(complete) for find in ALL)] == [(1, 1)] * 3
        np.testing.assert_array_equal(dominating_set(star).members, [0])

    def test_graphs_on_which_the_three_differ(self):
        """The Petersen graph; and the ring of five, whose cliques are its links."""
        assert [find(dense(nx.petersen_graph())).size for find in ALL] == [3, 4, 5]
        assert [find(dense(nx.cycle_graph(5))).size for find in ALL] == [2, 2, 3]

    @pytest.mark.parametrize("search", [True, False])
    def test_rings_of_five_apart(self, search, monkeypatch):
        """Four of them: linear programming proves no more than 10 for independence and cliques, between 8 and 12."""
        if not search:
            without_search(monkeypatch)
        adjacent = dense(nx.disjoint_union_all([nx.cycle_graph(5)] * 4))
        assert [(found.size, found.bound) for found in (find(adjacent) for find in ALL)] == [(8, 8), (8, 8), (12, 12)]

    def test_no_links_and_no_nodes(self):
        assert [find(np.zeros((4, 4), dtype=bool)).size for find in ALL] == [4, 4, 4]
        for find in ALL:
            found = find(np.zeros((0, 0), dtype=bool))
            assert (found.size, found.bound, found.exact) == (0, 0, True)
        assert clique_cover(np.zeros((0, 0), dtype=bool)).cliques == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_bounds_of_the_theory(seed, gamma):
    """psi(G_gamma) <= ceil(2M / (gamma + 2)) for connected graphs, and Turan's alpha >= M / (1 + average degree)."""
    graph = nx.random_labeled_tree(60, seed=seed)
    power = power_graph(graph, gamma)
    assert dominating_set(power).size <= math.ceil(2 * 60 / (gamma + 2))
    assert independent_set(power).size >= 60 / (1 + power.nnz / 60)


def test_cliques_are_numbered_largest_first():
    adjacent = np.zeros((6, 6), dtype=bool)
    for i, j in ((3, 4), (3, 5), (4, 5), (1, 2)):
        adjacent[i, j] = adjacent[j, i] = True
    cover = clique_cover(adjacent)
    np.testing.assert_array_equal(cover.label, [2, 1, 1, 0, 0, 0])
    assert [nodes.tolist() for nodes in cover.cliques] == [[3, 4, 5], [1, 2], [0]]


@pytest.mark.parametrize("find", ALL)
def test_sparse_loops_and_numbers_make_no_difference(find):
    adjacent = random_graph(20, 0.3, 4)
    expected = find(adjacent)
    for same in (sparse.csr_array(adjacent), adjacent | np.eye(20, dtype=bool), sparse.csr_array(3 * adjacent)):
        found = find(same)
        assert (found.size, found.bound) == (expected.size, expected.bound)
        kept = "label" if find is clique_cover else "members"
        np.testing.assert_array_equal(getattr(found, kept), getattr(expected, kept))


@pytest.mark.parametrize("find", ALL)
@pytest.mark.parametrize("bad", [np.zeros((2, 3), dtype=bool), np.array([[0, 1], [0, 0]], dtype=bool)])
def test_what_is_not_a_graph_is_refused(find, bad):
    with pytest.raises(ValueError, match="symmetric"):
        find(bad)


@pytest.mark.parametrize("find", ALL)
def test_the_same_graph_gives_the_same_sets(find):
    adjacent = power_graph(nx.barabasi_albert_graph(60, 2, seed=3), 1)
    one, other = find(adjacent), find(adjacent)
    kept = "label" if find is clique_cover else "members"
    np.testing.assert_array_equal(getattr(one, kept), getattr(other, kept))
    assert one.bound == other.bound


class TestLarge:
    graph = nx.barabasi_albert_graph(10_000, 3, seed=2)

    @pytest.fixture
    def links(self):
        return power_graph(self.graph, 1)

    def test_ten_thousand_nodes_are_dominated(self, links):
        found = dominating_set(links)
        assert nx.is_dominating_set(self.graph, found.members.tolist())
        assert found.bound <= found.size < 1.6 * found.bound
        leads = np.isin(np.arange(10_000), found.members)
        dominators = leads + links.astype(np.int64) @ leads
        for node in found.members.tolist():
            assert any(dominators[near] == 1 for near in (node, *self.graph[node])), "none is superfluous"

    def test_their_cliques_and_strangers_bound_each_other(self, links):
        strangers, cover = independent_set(links), clique_cover(links)
        assert strangers.bound == cover.size
        assert cover.bound == strangers.size
        assert strangers.size > 0.95 * cover.size
        assert not set(strangers.members.tolist()) & {v for u in strangers.members.tolist() for v in self.graph[u]}
        for nodes in cover.cliques[:200]:
            assert all(self.graph.has_edge(u, v) for u, v in combinations(nodes.tolist(), 2))


class TestLargestClique:
    def test_against_networkx(self):
        for seed in range(20):
            adjacent = random_graph(25, 0.1 + 0.04 * seed, seed)
            found, complete = largest_clique(adjacent)
            assert complete
            assert clique(adjacent, found)
            assert len(found) == max(map(len, nx.find_cliques(nx.from_numpy_array(adjacent))))

    def test_the_limit_keeps_what_was_found(self):
        found, complete = largest_clique(random_graph(60, 0.8, 0), limit=300)
        assert not complete
        assert len(found) > 5

    def test_no_nodes(self):
        found, complete = largest_clique(np.zeros((0, 0), dtype=bool))
        assert complete
        assert len(found) == 0
