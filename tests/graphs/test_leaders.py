"""Leaders and cliques of a graph: who is led by whom, by the rule and by nobody's choice."""

from __future__ import annotations

import gc
import weakref

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.graphs import leaders
from fedbandits.graphs.leaders import clique_of, leadership

graphs = st.builds(
    lambda n, density, seed: nx.gnp_random_graph(n, density, seed=seed),
    st.integers(1, 14),
    st.floats(0, 0.6),
    st.integers(0, 10**6),
)


@given(graphs, st.integers(0, 4))
def test_followers_follow_the_best_connected_leader_in_reach(graph, ttl):
    """Also on graphs that are not connected."""
    led = leadership(graph, ttl)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    reach = {v: [u for u in graph if distance[v].get(u, 99) <= ttl] for v in graph}
    chosen = led.leaders.tolist()
    for v in graph:
        if v in chosen:
            assert (led.leader[v], led.distance[v]) == (v, 0)
        else:
            best = min((u for u in chosen if u in reach[v]), key=lambda u: (-len(reach[u]), u))
            assert led.leader[v] == best
            assert led.distance[v] == distance[v][best]
    assert set(led.leader.tolist()) == set(chosen)


@given(graphs, st.integers(0, 4))
def test_members_of_a_clique_reach_each_other(graph, ttl):
    clique = clique_of(graph, ttl)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    for u in graph:
        for v in graph:
            assert clique[u] != clique[v] or distance[u][v] <= ttl
    assert set(clique.tolist()) == set(range(clique.max() + 1))


def test_without_hops_everybody_leads_alone():
    led = leadership(nx.complete_graph(5), 0)
    np.testing.assert_array_equal(led.leader, range(5))
    np.testing.assert_array_equal(led.distance, 0)
    assert sorted(clique_of(nx.complete_graph(5), 0).tolist()) == list(range(5))


def test_one_leader_leads_all_who_are_in_reach():
    graph = nx.path_graph(7)
    led = leadership(graph, 3)
    np.testing.assert_array_equal(led.leader, 3)
    np.testing.assert_array_equal(led.distance, [3, 2, 1, 0, 1, 2, 3])
    np.testing.assert_array_equal(clique_of(graph, 6), 0)


def test_a_tie_goes_to_the_lowest_and_degree_to_the_highest():
    """Hubs 0 and 1 of two stars share node 2: equal stars first, then one more leaf for hub 1."""
    graph = nx.Graph([(0, 2), (1, 2), *((0, leaf) for leaf in (3, 4)), *((1, leaf) for leaf in (5, 6))])
    assert leadership(graph, 1).leader.tolist() == [0, 1, 0, 0, 0, 1, 1]
    larger = nx.Graph([*graph.edges, (1, 7)])
    assert leadership(larger, 1).leader.tolist() == [0, 1, 1, 0, 0, 1, 1, 1]


def test_components_have_their_own_leaders():
    graph = nx.disjoint_union(nx.star_graph(4), nx.star_graph(2))
    led = leadership(graph, 2)
    assert (led.leader[:5] < 5).all()
    assert (led.leader[5:] >= 5).all()
    assert len(led.leaders) == 2


@pytest.mark.parametrize("ask", [leadership, clique_of])
def test_asked_again_the_graph_is_not_searched_again(ask, monkeypatch):
    graph = nx.path_graph(6)
    first = ask(graph, 1)
    other = ask(graph, 2)
    monkeypatch.setattr(leaders, "dominating_set", None)
    monkeypatch.setattr(leaders, "clique_cover", None)
    assert ask(graph, 1) is first
    assert ask(graph, 2) is other
    with pytest.raises(TypeError):
        ask(graph.copy(), 1)


def test_what_is_remembered_goes_with_the_graph():
    graph = nx.path_graph(6)
    led, alive = leadership(graph, 1), weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None
    assert led.leader[1] == 1


def test_what_is_shared_cannot_be_changed():
    graph = nx.path_graph(3)
    for array in (leadership(graph, 1).leader, leadership(graph, 1).distance, clique_of(graph, 1)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_two_thousand_agents():
    graph = nx.barabasi_albert_graph(2_000, 3, seed=1)
    led = leadership(graph, 2)
    assert nx.is_dominating_set(nx.power(graph, 2), led.leaders.tolist())
    assert led.distance.max() <= 2
