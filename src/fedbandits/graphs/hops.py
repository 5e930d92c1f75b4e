"""Hop distances of a graph, as pairs, and the power graphs they make.

G_radius joins two nodes whose hop distance is between 1 and radius: agents whose messages, living for `radius` hops,
reach each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from scipy import sparse

from fedbandits.contract.arrays import IntArray
from fedbandits.linalg.jit import jit, jit_part


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """All ordered pairs of nodes at one hop distance, `origin[e]` and `to[e]`, sorted by origin, then by `to`.

    `parent[e]` is the last stop on the way: the lowest-numbered neighbour of `to[e]` that is one hop nearer to the
    origin (the node itself at distance 0). For each origin the parents form a breadth-first tree.
    """

    origin: IntArray
    to: IntArray
    parent: IntArray


def adjacency(graph: nx.Graph[int]) -> sparse.csr_array:
    """The adjacency matrix of an undirected graph whose nodes are 0..n-1; raises `ValueError` otherwise."""
    n = graph.number_of_nodes()
    if graph.is_directed():
        raise ValueError("the network is directed; agents need an undirected graph")
    if set(graph.nodes) != set(range(n)):
        raise ValueError("the network's nodes must be 0..n-1; use networkx.convert_node_labels_to_integers")
    # both directions of an edge, and parallel edges once: as networkx keeps them
    degrees = [len(near) for near in graph.adj.values()]
    origin = np.repeat(np.fromiter(graph.adj, dtype=np.int64, count=n), degrees)
    to = np.fromiter(itertools.chain.from_iterable(graph.adj.values()), dtype=np.int64, count=sum(degrees))
    apart = origin != to
    links = (origin[apart], to[apart])
    return sparse.csr_array((np.ones(len(links[0]), dtype=np.int64), links), shape=(n, n))


def pairs_by_distance(graph: nx.Graph[int], radius: int) -> list[Pairs]:
    """Entry h, for h = 0..radius: the ordered pairs at hop distance exactly h.

    A breadth-first search from every node, cut off at `radius`; first to count the pairs, then to write them, so that
    memory beyond the result is O(n).
    """
    if radius < 0:
        raise ValueError(f"radius must not be negative, got {radius}")
    starts, neighbours = _lists(graph)
    depth = min(radius, max(len(starts) - 2, 0))  # of n nodes, none is farther than n - 1 hops
    counts = _count(starts, neighbours, depth)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    pairs = np.empty((3, offsets[-1]), dtype=np.int64)
    _write(starts, neighbours, depth, offsets[:-1].copy(), pairs)
    found = [Pairs(*pairs[:, first:last]) for first, last in itertools.pairwise(offsets)]
    return found + [Pairs(*pairs[:, :0])] * (radius - depth)


def joined(pairs: Sequence[Pairs], n: int) -> sparse.csr_array:
    """The (n, n) boolean adjacency matrix of the graph that joins all the given pairs, without loops."""
    origin = np.concatenate([each.origin for each in pairs] or [np.empty(0, dtype=np.int64)])
    to = np.concatenate([each.to for each in pairs] or [np.empty(0, dtype=np.int64)])
    apart = origin != to
    links = (origin[apart], to[apart])
    return sparse.csr_array((np.ones(len(links[0]), dtype=np.bool_), links), shape=(n, n))


def power_graph(graph: nx.Graph[int], radius: int) -> sparse.csr_array:
    """The (n, n) boolean adjacency matrix of G_radius: no links at radius 0, a complete graph from the diameter on."""
    return joined(pairs_by_distance(graph, radius), graph.number_of_nodes())


def diameter(graph: nx.Graph[int]) -> int:
    """The largest hop distance; of a graph that is not connected, the largest within a component."""
    return int(_farthest(*_lists(graph)))


def _lists(graph: nx.Graph[int]) -> tuple[IntArray, IntArray]:
    """Adjacency lists: the neighbours of u are `neighbours[starts[u] : starts[u + 1]]`, ascending."""
    links = adjacency(graph)
    links.sort_indices()
    return links.indptr.astype(np.int64), links.indices.astype(np.int64)


@jit_part
def _spread(
    starts: IntArray, neighbours: IntArray, origin: int, depth: int, reached: IntArray, hop: IntArray, parent: IntArray
) -> int:
    """Search from `origin` down to `depth` hops; returns how many nodes were `reached`, itself included, nearest first.

    `hop` must come in as -1 for all nodes; afterwards it and `parent` say distance and last stop of those reached.
    """
    reached[0], hop[origin], parent[origin] = origin, 0, origin
    last = 1
    at = 0
    while at < last and hop[reached[at]] < depth:
        node = reached[at]
        for link in range(starts[node], starts[node + 1]):
            neighbour = neighbours[link]
            if hop[neighbour] < 0:
                hop[neighbour] = hop[node] + 1
                parent[neighbour] = node
                reached[last] = neighbour
                last += 1
            elif hop[neighbour] == hop[node] + 1 and node < parent[neighbour]:
                parent[neighbour] = node
        at += 1
    return last


@jit
def _count(starts: IntArray, neighbours: IntArray, depth: int) -> IntArray:
    n = len(starts) - 1
    counts = np.zeros(depth + 1, np.int64)
    reached, hop, parent = np.empty(n, np.int64), np.full(n, -1, np.int64), np.empty(n, np.int64)
    for origin in range(n):
        last = _spread(starts, neighbours, origin, depth, reached, hop, parent)
        for at in range(last):
            counts[hop[reached[at]]] += 1
            hop[reached[at]] = -1
    return counts


@jit
def _write(starts: IntArray, neighbours: IntArray, depth: int, places: IntArray, pairs: IntArray) -> None:
    """Fill `pairs` (3, total): those at distance h from `places[h]` on."""
    n = len(starts) - 1
    reached, hop, parent = np.empty(n, np.int64), np.full(n, -1, np.int64), np.empty(n, np.int64)
    for origin in range(n):
        _spread(starts, neighbours, origin, depth, reached, hop, parent)
        for node in range(n):  # all of them, in order: for 10^4 nodes a tenth of a second, less than sorting
            if hop[node] >= 0:
                place = places[hop[node]]
                pairs[0, place], pairs[1, place], pairs[2, place] = origin, node, parent[node]
                places[hop[node]] += 1
                hop[node] = -1


@jit
def _farthest(starts: IntArray, neighbours: IntArray) -> int:
    """Bounds on how far each node's farthest is, from a few searches (Takes & Kosters, 2011).

    Where v's farthest is e hops away, that of a node d hops from v is between max(d, e - d) and e + d. Searches start
    in turn from the node that may be most central and from the one that may be most remote, until
    nobody can be farther from anybody than what was found.
    """
    n = len(starts) - 1
    least, most = np.zeros(n, np.int64), np.full(n, n, np.int64)
    reached, hop, parent = np.empty(n, np.int64), np.full(n, -1, np.int64), np.empty(n, np.int64)
    farthest = 0
    central = True
    while True:
        chosen = -1
        for node in range(n):
            if most[node] > farthest and (
                chosen < 0 or (least[node] < least[chosen] if central else most[node] > most[chosen])
            ):
                chosen = node
        if chosen < 0:
            return farthest
        last = _spread(starts, neighbours, chosen, n, reached, hop, parent)
        far = hop[reached[last - 1]]
        farthest = max(farthest, far)
        for at in range(last):
            node = reached[at]
            least[node] = max(least[node], hop[node], far - hop[node])
            most[node] = min(most[node], far + hop[node])
            hop[node] = -1
        most[chosen] = far
        central = not central
