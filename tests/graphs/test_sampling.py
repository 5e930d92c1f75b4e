"""Connected samples: how many nodes, which links, which nodes, and the same ones for the same seed."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedbandits.graphs.hops import adjacency
from fedbandits.graphs.sampling import largest_component, sample

METHODS = ("walk", "ball")
TORUS = nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 15, periodic=True))


def draw(graph, n, method, seed):
    return sample(adjacency(graph), n, method, np.random.default_rng(seed))


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(1, 40), st.floats(0.02, 0.4), st.integers(0, 10**6), st.floats(0, 1))
def test_samples_are_connected_and_as_large_as_asked(method, n, density, seed, share):
    graph = nx.gnp_random_graph(n, density, seed=seed)
    wanted = max(1, round(share * len(max(nx.connected_components(graph), key=len))))
    found = draw(graph, wanted, method, seed)
    assert sorted(found) == list(range(wanted))
    assert nx.is_connected(found)
    assert not any(u == v for u, v in found.edges)


@pytest.mark.parametrize("method", METHODS)
def test_all_links_among_the_sampled_are_kept(method):
    """In a complete graph every sample is complete; the whole of a component is the component itself, in its order."""
    assert draw(nx.complete_graph(30), 12, method, 0).number_of_edges() == 66
    graph = nx.gnp_random_graph(40, 0.15, seed=5)
    graph.add_edges_from([(40, 41), (41, 42)])
    largest = sorted(max(nx.connected_components(graph), key=len))
    whole = nx.relabel_nodes(graph.subgraph(largest), dict(zip(largest, range(len(largest)), strict=True)))
    assert set(map(frozenset, draw(graph, len(largest), method, 1).edges)) == set(map(frozenset, whole.edges))


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides(method):
    one, same, other = (set(draw(TORUS, 60, method, seed).edges) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_ball_is_everything_within_a_distance():
    """Within two hops of any node of a torus are 1 + 4 + 8 nodes."""
    around = nx.ego_graph(TORUS, 0, radius=2)
    assert len(around) == 13
    for seed in range(5):
        assert nx.is_isomorphic(draw(TORUS, 13, "ball", seed), around)
    assert not all(nx.is_isomorphic(draw(TORUS, 13, "walk", seed), around) for seed in range(5))


def test_a_ball_takes_a_random_part_of_its_outermost_nodes():
    shapes = {tuple(sorted(dict(draw(TORUS, 9, "ball", seed).degree).values())) for seed in range(20)}
    assert len(shapes) > 1


def test_a_walk_gets_on_where_it_could_be_caught():
    """A walk that returned to its first node would all but never go 100 nodes along a line."""
    assert nx.is_isomorphic(draw(nx.path_graph(150), 100, "walk", 0), nx.path_graph(100))


def test_the_law_of_the_walk():
    """Four nodes of a tree are a line or a claw: how often the latter, against the chance solved for exactly."""
    graph = nx.balanced_tree(3, 2)

    def claw(visited, at):
        """The chance of a claw for a walk that has seen `visited` and is at its `at`-th."""
        if len(visited) == 4:
            return float(max(dict(graph.subgraph(visited).degree).values()) == 3)
        stay, leave = np.zeros((len(visited), len(visited))), np.zeros(len(visited))
        for now in range(len(visited)):
            for start, node in enumerate(visited):
                chance = (0.15 / len(visited) + 0.85 * (start == now)) / graph.degree[node]
                for neighbour in graph[node]:
                    if neighbour in visited:
                        stay[now, visited.index(neighbour)] += chance
                    else:
                        leave[now] += chance * claw((*visited, neighbour), len(visited))
        return np.linalg.solve(np.eye(len(visited)) - stay, leave)[at]

    expected = np.mean([claw((first,), 0) for first in graph])
    found = sum(max(dict(draw(graph, 4, "walk", seed).degree).values()) == 3 for seed in range(3_000))
    assert chisquare([found, 3_000 - found], [3_000 * expected, 3_000 * (1 - expected)]).pvalue > 1e-2


def test_the_largest_component_and_ties():
    graph = nx.Graph([(0, 5), (1, 2), (2, 3)])
    graph.add_node(4)
    np.testing.assert_array_equal(largest_component(adjacency(graph)), [1, 2, 3])
    np.testing.assert_array_equal(largest_component(adjacency(nx.Graph([(0, 3), (1, 2)]))), [0, 3])
    assert len(largest_component(adjacency(nx.empty_graph(0)))) == 0


@pytest.mark.parametrize("method", METHODS)
def test_more_than_the_component_has_is_refused(method):
    with pytest.raises(ValueError, match=r"0\.\.3 nodes, got 4"):
        draw(nx.Graph([(0, 1), (1, 2), (3, 4)]), 4, method, 0)
    assert len(draw(nx.path_graph(2), 0, method, 0)) == 0
