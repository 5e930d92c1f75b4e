"""Centres of a graph, and who follows which of them: a weighted independent set."""

from __future__ import annotations

import networkx as nx
import numpy as np

from fedbandits.graphs.hops import joined, pairs_by_distance
from fedbandits.graphs.leaders import Leadership


def centres(graph: nx.Graph[int], ttl: int) -> Leadership:
    """Centres: a maximal independent set of G_ttl whose weight, the number of agents that hear each, is large.

    The heaviest node is taken, those that hear it are left out, and so on; ties go to the lowest number. A set of
    largest weight is as hard to find as any, and this one will do: every maximal independent set dominates (Dubey
    2022, thesis, section 8.5, which says "maximal" and uses no more). Everybody else follows, of the centres at most
    `ttl` hops away, the one with the highest degree in G_ttl, on ties the lowest-numbered.
    """
    n = graph.number_of_nodes()
    pairs = pairs_by_distance(graph, ttl)
    links = joined(pairs, n)
    degree = np.diff(links.indptr)
    hops = np.full((n, n), -1)
    for distance, each in enumerate(pairs):
        hops[each.origin, each.to] = distance
    free, leader = np.ones(n, dtype=np.bool_), np.arange(n)
    chosen = []
    for node in np.lexsort((np.arange(n), -degree)):
        if free[node]:
            chosen.append(node)
            free[hops[node] >= 0] = False
    ranked = np.array(chosen)  # heaviest first, then by number: the first within reach is the one to follow
    near = hops[:, ranked] >= 0
    others = np.ones(n, dtype=np.bool_)
    others[ranked] = False
    leader[others] = ranked[near[others].argmax(axis=1)]
    return Leadership(leader, hops[np.arange(n), leader])
