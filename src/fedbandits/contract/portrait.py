"""Portraits: what a run found out about its agents, as named arrays for people to look at.

- ``graph`` (n, n) bool: which pairs of agents are taken to be alike;
- ``clusters`` (m, n) bool: who belongs to which cluster; clusters may overlap;
- ``truth.clusters`` (n,) int: the cluster each agent really belongs to, where the world has clusters;
- ``network.edges`` (E, 2) int64: the links of the graph that agents talk on, each once, as pairs of agents;
- ``network.known`` (n,) float64: how much each agent knows, as the number of samples that it acts on;
- ``network.leaders`` (n,) int64: the agent that each one follows, leaders themselves; where there are leaders;
- ``budget.words`` (4,) str, ``budget.numbers`` (3,) and ``budget.used`` (n, 3) float64: a budget of privacy, what it
  means (unit, adjacency, definition, mechanism), how large it is (epsilon, delta, releases allowed), and what each
  agent has used (epsilon, the same strictly, releases); see `budget`;
- ``game.board`` (2,) int64 and ``game.paths`` (n, m) int64: rows and columns of a board, and the cells that each agent
  came through in the last whole episode;
- ``game.front`` (k, n) and ``game.returns`` (m, n) float64: the Pareto front of a game, and what each agent earned in
  its last episodes;
- ``omitted`` (k,) str: names of arrays that were too large to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.contract import state
from fedbandits.contract.arrays import Array, BoolArray, IntArray, State

if TYPE_CHECKING:
    import networkx as nx

TRUTH = "truth.clusters"
EDGES = "network.edges"
KNOWN = "network.known"
LEADERS = "network.leaders"
BOARD = "game.board"
PATHS = "game.paths"
FRONT = "game.front"
RETURNS = "game.returns"
OMITTED = "omitted"
LARGEST = 500 * 500
"""Entries of the largest array kept of a run: the graph of 500 agents, or 125,000 links."""


@dataclass(frozen=True, slots=True, eq=False)
class Portrait:
    """What one run left to look at; `arrays` as the module says."""

    label: str
    point: Mapping[str, Any]
    seed: int
    arrays: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Pairs of agents taken for alike although they differ, and the other way round, of `alike` and `different`."""

    joined: int
    separated: int
    different: int
    alike: int


def mistakes(graph: BoolArray, truth: IntArray) -> Mistakes:
    """The pairs in which `graph` (n, n) and the true clusters `truth` (n,) disagree."""
    pairs = np.triu_indices(len(truth), 1)
    found, alike = graph[pairs], (truth[:, None] == truth[None, :])[pairs]
    joined, separated = int((found & ~alike).sum()), int((~found & alike).sum())
    return Mistakes(joined, separated, int((~alike).sum()), int(alike.sum()))


def links(graph: nx.Graph[int]) -> IntArray:
    """``network.edges`` of `graph`: (E, 2) pairs of different nodes, smaller one first, in order.

    >>> import networkx as nx
    >>> links(nx.Graph([(2, 1), (1, 1), (0, 2)])).tolist()
    [[0, 2], [1, 2]]
    """
    pairs = np.array(sorted((min(u, v), max(u, v)) for u, v in graph.edges if u != v), dtype=np.int64)
    return pairs.reshape(-1, 2)


def bounded(portrait: Mapping[str, Array]) -> State:
    """`portrait` without what has more than `LARGEST` entries, and with the names of that under `omitted`."""
    kept = {name: array for name, array in portrait.items() if array.size <= LARGEST}
    if left_out := sorted(portrait.keys() - kept.keys()):
        kept[OMITTED] = np.array(left_out)
    return kept


def to_bytes(portrait: Mapping[str, Array]) -> bytes:
    """One compressed `.npz`; nothing for an empty portrait."""
    return state.to_bytes(portrait, compressed=True) if portrait else b""


def from_bytes(content: bytes) -> State:
    """What `to_bytes` was given."""
    return state.from_bytes(content) if content else {}
