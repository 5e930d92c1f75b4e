"""Connected samples of a graph that is too large to simulate.

`sample` starts from a uniformly drawn node of the largest component, collects distinct nodes by one of two methods
until it has as many as asked for, and keeps all links among them (the induced subgraph):

- "walk": a random walk that, before each step, returns with probability 0.15 to a uniformly drawn node it has been to.
  0.15 is the rate of Leskovec & Faloutsos (2006), whose walk returns to where it began and can therefore be caught near
  it for very long; returning to any visited node keeps the sample connected as well and always gets on.
- "ball": a breadth-first search in which the neighbours of each node are queued in random order: all nodes within some
  distance of the first, and some of those one hop farther.

Walks favour nodes with many neighbours and spread over the graph; balls keep one neighbourhood whole. Both are biased:
neither gives the degrees or the diameter of the large graph.
"""

from __future__ import annotations

from typing import Literal

import networkx as nx
import numpy as np
from scipy import sparse

from fedbandits.contract.arrays import Array, IntArray

Method = Literal["walk", "ball"]
RETURN = 0.15
"""The chance that the walk returns to a node it has been to."""


def largest_component(links: sparse.csr_array) -> IntArray:
    """The nodes of the largest connected component, ascending; of several equally large ones, that of the lowest node.

    `links` (n, n) is a symmetric adjacency matrix.
    """
    count, label = sparse.csgraph.connected_components(links, directed=False)
    if not count:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(label == np.bincount(label).argmax())


def sample(links: sparse.csr_array, n: int, method: Method, rng: np.random.Generator) -> nx.Graph[int]:
    """A connected graph of n nodes out of the graph with the symmetric adjacency matrix `links`.

    Nodes are renumbered 0..n-1 in their original order. Raises `ValueError` if the largest component is smaller than n.
    """
    component = largest_component(links)
    if not 0 <= n <= len(component):
        raise ValueError(f"a connected sample can have 0..{len(component)} nodes, got {n}")
    graph: nx.Graph[int] = nx.empty_graph(n)
    if n == 0:
        return graph
    collect = _walk if method == "walk" else _ball
    nodes = sorted(collect(links.indptr, links.indices, int(rng.choice(component)), n, rng))
    inside = sparse.coo_array(links[nodes][:, nodes])
    graph.add_edges_from((u, v) for u, v in zip(inside.row.tolist(), inside.col.tolist(), strict=True) if u < v)
    return graph


def _walk(starts: Array, neighbours: Array, first: int, n: int, rng: np.random.Generator) -> list[int]:
    seen = {first}
    visited = [first]
    node = first
    while len(visited) < n:
        returning, drawn = rng.random(2).tolist()
        if returning < RETURN:
            node = visited[int(drawn * len(visited))]
            drawn = rng.random()
        around = neighbours[starts[node] : starts[node + 1]]
        node = int(around[int(drawn * len(around))])
        if node not in seen:
            seen.add(node)
            visited.append(node)
    return visited


def _ball(starts: Array, neighbours: Array, first: int, n: int, rng: np.random.Generator) -> list[int]:
    seen = {first}
    queue = [first]
    for node in queue:  # grows while it is gone through
        if len(queue) >= n:
            break
        for neighbour in rng.permutation(neighbours[starts[node] : starts[node + 1]]).tolist():
            if neighbour not in seen:
                seen.add(neighbour)
                queue.append(neighbour)
    return queue[:n]
