"""Hop distances of a graph, as pairs."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
from scipy import sparse

from fedbandits.arrays import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """All ordered pairs of nodes at one hop distance: `origin[e]` and `to[e]`."""

    origin: IntArray
    to: IntArray


def adjacency(graph: nx.Graph[int]) -> sparse.csr_array:
    """The adjacency matrix of an undirected graph whose nodes are 0..n-1; raises `ValueError` otherwise."""
    n = graph.number_of_nodes()
    if graph.is_directed():
        raise ValueError("the network is directed; agents need an undirected graph")
    if set(graph.nodes) != set(range(n)):
        raise ValueError("the network's nodes must be 0..n-1; use networkx.convert_node_labels_to_integers")
    edges = np.array([(u, v) for u, v in nx.Graph(graph).edges if u != v], dtype=np.int64).reshape(-1, 2)
    both = np.vstack([edges, edges[:, ::-1]])
    ones = np.ones(len(both), dtype=np.int64)
    return sparse.csr_array((ones, (both[:, 0], both[:, 1])), shape=(n, n))


def pairs_by_distance(graph: nx.Graph[int], radius: int) -> list[Pairs]:
    """Entry h, for h = 0..radius: the ordered pairs at hop distance exactly h.

    Breadth-first from all nodes at once, one sparse product per hop.
    """
    links = adjacency(graph)
    n = links.shape[0]
    nodes = np.arange(n)
    found = [Pairs(nodes, nodes)]
    seen = sparse.csr_array((np.ones(n, dtype=np.int64), (nodes, nodes)), shape=(n, n))
    frontier = seen
    for _ in range(radius):
        reached = (frontier @ links).sign()
        frontier = sparse.csr_array(reached - reached.multiply(seen))
        frontier.eliminate_zeros()
        frontier.sort_indices()
        origin, to = frontier.nonzero()
        found.append(Pairs(origin.astype(np.int64), to.astype(np.int64)))
        seen = sparse.csr_array((seen + frontier).sign())
    return found


def diameter(graph: nx.Graph[int]) -> int:
    """The largest hop distance; of a graph that is not connected, the largest within a component."""
    links = adjacency(graph)
    lengths = sparse.csgraph.shortest_path(links, method="D", unweighted=True)
    return int(lengths[np.isfinite(lengths)].max())
