"""Centres: a maximal independent set of the power graph, heavy ones first, that everybody else follows."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.graphs.centres import centres


@given(st.integers(1, 12), st.floats(0.05, 0.9), st.integers(0, 3), st.integers(0, 1000))
def test_centres_hear_nobody_who_leads_and_are_heard_by_all_others(n, p, ttl, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    led = centres(graph, ttl)
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    heavy = {v: sum(1 <= d <= ttl for d in hops[v].values()) for v in graph}
    leaders = set(led.leaders.tolist())
    for v in graph:
        near = [c for c in sorted(leaders) if hops[v].get(c, ttl + 1) <= ttl]
        if v in leaders:
            assert near == [v]
            assert led.leader[v] == v
        else:  # maximal: otherwise v could lead as well
            best = max(near, key=lambda c: (heavy[c], -c))
            assert (led.leader[v], led.distance[v]) == (best, hops[v][best])
    heaviest = max(graph, key=lambda v: (heavy[v], -v))
    assert heaviest in leaders


def test_the_hub_of_a_star_leads():
    led = centres(nx.star_graph(5), 1)
    np.testing.assert_array_equal(led.leaders, [0])
    np.testing.assert_array_equal(led.distance, [0, 1, 1, 1, 1, 1])
