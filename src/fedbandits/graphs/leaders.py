"""Who leads whom on a graph, and who is in a clique with whom, when messages live for a number of hops.

Both follow from the graph alone, by deterministic rules: agents that know the graph agree without talking. They are
remembered for as long as the graph object lives, since n populations of one ask for the same; a graph must not be
changed once it has been asked about.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import networkx as nx
import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.graphs.hops import joined, pairs_by_distance, power_graph
from fedbandits.graphs.structure import clique_cover, dominating_set

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Leadership:
    """`leader` (n,): whom each node follows, leaders themselves; `distance` (n,): how many hops away that is.

    The arrays are read-only.
    """

    leader: IntArray
    distance: IntArray

    @property
    def leaders(self) -> IntArray:
        """The leaders, ascending."""
        return np.flatnonzero(self.distance == 0)


def _once_per_graph(compute: Callable[[nx.Graph[int], int], T]) -> Callable[[nx.Graph[int], int], T]:
    """Remember `compute(graph, ttl)` for as long as the graph lives."""
    known: WeakKeyDictionary[nx.Graph[int], dict[int, T]] = WeakKeyDictionary()

    @functools.wraps(compute)
    def remembered(graph: nx.Graph[int], ttl: int) -> T:
        answers = known.setdefault(graph, {})
        if ttl not in answers:
            answers[ttl] = compute(graph, ttl)
        return answers[ttl]

    return remembered


@_once_per_graph
def leadership(graph: nx.Graph[int], ttl: int) -> Leadership:
    """Leaders: a dominating set of G_ttl, as small as `dominating_set` finds.

    Everybody else follows, of the leaders at most `ttl` hops away, the one with the highest degree in G_ttl, on ties
    the lowest-numbered. Dubey (2022), thesis, section 4.3 prints the follower's own degree there, which decides
    nothing. On a graph that is not connected every component has leaders of its own.
    """
    n = graph.number_of_nodes()
    pairs = pairs_by_distance(graph, ttl)
    links = joined(pairs, n)
    leads = np.zeros(n, dtype=np.bool_)
    leads[dominating_set(links).members] = True
    follower = np.concatenate([each.origin for each in pairs])
    candidate = np.concatenate([each.to for each in pairs])
    hops = np.repeat(np.arange(len(pairs)), [len(each.to) for each in pairs])
    able = leads[candidate] & (~leads[follower] | (hops == 0))
    follower, candidate, hops = follower[able], candidate[able], hops[able]
    degree = np.diff(links.indptr)
    ranked = np.lexsort((candidate, -degree[candidate], follower))
    best = ranked[np.searchsorted(follower[ranked], np.arange(n))]
    return Leadership(_sealed(candidate[best]), _sealed(hops[best]))


@_once_per_graph
def clique_of(graph: nx.Graph[int], ttl: int) -> IntArray:
    """(n,) the clique of each node in a cover of G_ttl by as few cliques as `clique_cover` finds; read-only.

    Members of one clique are at most `ttl` hops from each other.
    """
    return _sealed(clique_cover(power_graph(graph, ttl)).label)


def _sealed(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
