"""Maximal cliques and a largest one, with a bound on the work, and a cover by greedy cliques for when it is hit.

Enumerating maximal cliques is exponential in the worst case (3^(n/3) of them exist), and so is the search for a largest
one. `maximal_cliques` and `largest_clique` therefore count the branches of their search and stop beyond a limit;
`greedy_cover` is always cheap. All return cliques only: every two members of a set are adjacent.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import BoolArray, IntArray

DEFAULT_LIMIT = 20_000
"""Branches of the search after which enumeration gives up. n disjoint cliques need about n branches."""

DEFAULT_COLOURINGS = 1_000_000
"""Nodes coloured after which the search for a largest clique stops: less than a second."""


class TooManyCliques(Exception):  # noqa: N818
    """The search for maximal cliques exceeded its limit."""


def maximal_cliques(adjacent: BoolArray, limit: int = DEFAULT_LIMIT) -> list[IntArray]:
    """All maximal cliques of the graph `adjacent` (n, n), isolated nodes included, largest first.

    Bron & Kerbosch (1973) with the pivot of Tomita, Tanaka & Takahashi (2006); sets of nodes are bits of an integer.
    Raises `TooManyCliques` beyond `limit` branches.
    """
    near = _bits(adjacent)
    found: list[int] = []
    # (clique so far, candidates to extend it, nodes whose cliques are done)
    stack = [(0, (1 << len(near)) - 1, 0)]
    branches = 0
    while stack:
        clique, candidates, done = stack.pop()
        branches += 1
        if branches > limit:
            raise TooManyCliques(f"more than {limit} branches")
        if not candidates:
            if not done and clique:
                found.append(clique)
            continue
        pivot = max(_members(candidates | done), key=lambda u: (near[u] & candidates).bit_count())
        for node in _members(candidates & ~near[pivot]):
            stack.append((clique | 1 << node, candidates & near[node], done & near[node]))
            candidates &= ~(1 << node)
            done |= 1 << node
    cliques = [np.array(_members(clique), dtype=np.int64) for clique in found]
    return sorted(cliques, key=lambda clique: (-len(clique), clique.tolist()))


def largest_clique(adjacent: BoolArray, limit: int = DEFAULT_COLOURINGS) -> tuple[IntArray, bool]:
    """The largest clique found in the graph `adjacent` (n, n), and whether the search was complete: none is larger.

    Branch and bound of Tomita & Seki (2003): the candidates of every branch are coloured so that no two of one colour
    are adjacent; a clique grows by at most one node of each colour. Stops when `limit` nodes have been coloured.
    """
    order = np.argsort(-adjacent.sum(axis=1), kind="stable")
    near = _bits(adjacent[np.ix_(order, order)])
    best: list[int] = []
    clique: list[int] = []
    stack = [_coloured((1 << len(near)) - 1, near)]
    work = 0
    while stack:
        left, candidates = stack[-1]
        if not candidates or len(clique) + candidates[-1][1] <= len(best):
            stack.pop()
            if clique:
                clique.pop()
            continue
        work += len(candidates)
        if work > limit:
            break
        node = candidates.pop()[0]
        stack[-1] = (left & ~(1 << node), candidates)
        clique.append(node)
        if len(clique) > len(best):
            best = clique.copy()
        stack.append(_coloured(left & near[node], near))
    return np.sort(order[best]), not stack


def _coloured(candidates: int, near: list[int]) -> tuple[int, list[tuple[int, int]]]:
    """The candidates themselves, and each with a colour 1, 2, ... that it shares with no neighbour, ascending."""
    coloured = []
    colour, left = 0, candidates
    while left:
        colour += 1
        fitting = left
        while fitting:
            low = fitting & -fitting
            node = low.bit_length() - 1
            fitting &= ~(near[node] | low)
            left ^= low
            coloured.append((node, colour))
    return candidates, coloured


def greedy_cover(adjacent: BoolArray) -> list[IntArray]:
    """A partition of the nodes into cliques: each grows from the node with most unplaced neighbours, always
    by the candidate that keeps most other candidates. O(n^2) bit operations on n-bit integers.
    """
    near = _bits(adjacent)
    left = (1 << len(near)) - 1
    cover = []
    while left:
        node = max(_members(left), key=lambda u: (near[u] & left).bit_count())
        clique, candidates = 1 << node, near[node] & left
        while candidates:
            open_now = candidates
            node = max(_members(open_now), key=lambda u: (near[u] & open_now).bit_count())
            clique |= 1 << node
            candidates &= near[node]
        cover.append(np.array(_members(clique), dtype=np.int64))
        left &= ~clique
    return sorted(cover, key=lambda clique: (-len(clique), clique.tolist()))


def _bits(adjacent: BoolArray) -> list[int]:
    if adjacent.ndim != 2 or adjacent.shape[0] != adjacent.shape[1] or (adjacent != adjacent.T).any():
        raise ValueError("adjacent must be a symmetric square matrix of booleans")
    without_loops = adjacent & ~np.eye(len(adjacent), dtype=np.bool_)
    packed = np.packbits(without_loops, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _members(bits: int) -> list[int]:
    nodes = []
    while bits:
        low = bits & -bits
        nodes.append(low.bit_length() - 1)
        bits ^= low
    return nodes
