"""Clusters of agents: who may learn with whom."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.graphs.cliques import DEFAULT_LIMIT, TooManyCliques, greedy_cover, maximal_cliques


def clusters_of(adjacent: BoolArray, limit: int = DEFAULT_LIMIT) -> BoolArray:
    """(m, n) membership of the clusters of the client graph `adjacent` (n, n).

    All maximal cliques, which may overlap; where finding them takes more than `limit` branches, a partition into greedy
    cliques. Either way every pair inside a cluster is adjacent and every agent has a cluster.
    """
    try:
        cliques = maximal_cliques(adjacent, limit)
    except TooManyCliques:
        cliques = greedy_cover(adjacent)
    return membership(cliques, len(adjacent))


def membership(groups: list[IntArray], n: int) -> BoolArray:
    """(m, n) whether agent i belongs to group k."""
    member = np.zeros((len(groups), n), dtype=np.bool_)
    for k, group in enumerate(groups):
        member[k, group] = True
    return member


def partition(labels: IntArray) -> BoolArray:
    """(m, n) membership of the groups of agents with equal labels."""
    return np.asarray(np.unique(labels)[:, None] == labels[None, :])
