"""Three numbers that govern how well agents learn on a graph, each with the sets that attain it.

- the clique covering number: fewest cliques that the nodes can be divided into (`clique_cover`);
- the independence number alpha: most nodes no two of which are adjacent (`independent_set`);
- the domination number psi: fewest nodes such that every other has one of them as neighbour (`dominating_set`).

psi <= alpha <= clique covering number; regret bounds are in terms of them (Dubey (2022), thesis, ch. 2 to 5). All three
are NP-hard, so a result says what is proved: `size` is what was found, `bound` a limit no solution can pass, and
`exact` that the two meet.

How. A greedy solution of the problem and one of its dual (cliques and independent nodes; dominating nodes and nodes
with disjoint neighbourhoods) bound each other from two sides; on trees, lines, stars and their power graphs they
often meet. Where they do not, graphs of up to `THOROUGH` nodes are searched by branch and bound, and then by integer
programming (HiGHS): covering by sets, or packing into them, where the sets are the maximal cliques or the closed
neighbourhoods. All work is limited by counts, never by the clock: the same graph gives the same result on
any machine. What integer programming proves, it proves up to HiGHS' tolerance of 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.graphs.cliques import TooManyCliques, largest_clique, maximal_cliques
from fedbandits.linalg.jit import jit

THOROUGH = 500
"""Nodes up to which more than greedy methods are tried."""
_ROUNDS = 300
"""Passes that try to merge the cliques of a cover."""
_BRANCHES = 20_000
"""Branches of each search."""
_DEEPEST = 12
"""Sets up to which a search for fewer has a chance within `_BRANCHES`."""
_CLIQUES = 5_000
"""Branches within which all maximal cliques must be found for programmes over them to be tried."""
_PROMISING = 4 / 3
"""How far the best solution may be from what linear programming proves for integer programming to be tried."""
_MODEST = 100
"""Nodes up to which it is tried in any case, with `_NODES` nodes of HiGHS' branching tree instead of the root alone."""
_NODES = 200
_TOLERANCE = 1e-6

Adjacent = BoolArray | sparse.csr_array
"""A graph: its (n, n) adjacency matrix, dense boolean or sparse. Loops do not count."""


@dataclass(frozen=True, slots=True, eq=False)
class CliqueCover:
    """A division of the nodes into cliques.

    `label` (n,) numbers the clique of each node, largest clique first, then by lowest node. No division has fewer
    than `bound` cliques.
    """

    label: IntArray
    bound: int

    @property
    def cliques(self) -> tuple[IntArray, ...]:
        """The nodes of each clique, ascending."""
        order = np.argsort(self.label, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.label))[:-1])) if len(order) else ()

    @property
    def size(self) -> int:
        """How many cliques."""
        return int(self.label.max()) + 1 if len(self.label) else 0

    @property
    def gap(self) -> int:
        """How many cliques fewer there might be."""
        return self.size - self.bound

    @property
    def exact(self) -> bool:
        """Whether no cover has fewer cliques: `size` is the clique covering number."""
        return self.gap == 0


@dataclass(frozen=True, slots=True, eq=False)
class NodeSet:
    """`members`, ascending, and the `bound` that no such set can pass: from above where many are wanted
    (`independent_set`), from below where few are (`dominating_set`).
    """

    members: IntArray
    bound: int

    @property
    def size(self) -> int:
        """How many members."""
        return len(self.members)

    @property
    def gap(self) -> int:
        """By how many members a set might be better."""
        return abs(self.size - self.bound)

    @property
    def exact(self) -> bool:
        """Whether no set is better: `size` is the number sought."""
        return self.gap == 0


def clique_cover(adjacent: Adjacent) -> CliqueCover:
    """As few cliques as we can find that the nodes of `adjacent` can be divided into.

    Equivalently, a colouring of the complement.
    """
    links = _links(adjacent)
    n = links.shape[0]
    bound = int(_greedy_independent(*_lists(links)).sum())
    label = _greedy_cliques(links, bound)
    greedy = CliqueCover(label, bound)
    if greedy.exact or n > THOROUGH:
        return greedy
    try:
        sets = maximal_cliques(links.toarray(), _CLIQUES)
    except TooManyCliques:
        return CliqueCover(label, len(independent_set(links).members))
    sets += greedy.cliques
    best, bound = _fewest(sets, np.arange(len(sets) - greedy.size, len(sets)), n, bound)
    for at in best[::-1]:  # a node that is in several cliques stays in the first
        label[sets[at]] = at
    return CliqueCover(_largest_first(label), bound)


def independent_set(adjacent: Adjacent) -> NodeSet:
    """As many nodes of `adjacent` as we can find without two adjacent ones."""
    links = _links(adjacent)
    n = links.shape[0]
    members = np.flatnonzero(_greedy_independent(*_lists(links)))
    bound = _count(_greedy_cliques(links, len(members)))
    if len(members) < bound and n <= THOROUGH:
        dense = links.toarray()
        found, complete = largest_clique(~dense & ~np.eye(n, dtype=np.bool_))
        members = max(members, found, key=len)
        bound = len(members) if complete else bound
        if len(members) < bound:
            with suppress(TooManyCliques):
                members, bound = _most(maximal_cliques(dense, _CLIQUES), members, n, bound)
    return NodeSet(np.sort(members), bound)


def dominating_set(adjacent: Adjacent) -> NodeSet:
    """As few nodes of `adjacent` as we can find such that every other node is adjacent to one of them."""
    links = _links(adjacent)
    n = links.shape[0]
    closed = (links + sparse.eye_array(n, dtype=np.bool_)).tocsr()
    starts, near = _lists(closed)
    members = np.flatnonzero(_greedy_dominating(starts, near))
    smallest_first = np.argsort(np.diff(starts), kind="stable")
    bound = max(_disjoint_neighbourhoods(starts, near, smallest_first), _shared_out(starts, near))
    if len(members) > bound and n <= THOROUGH:
        members, bound = _fewest(np.split(near, starts[1:-1]), members, n, bound)
    return NodeSet(np.sort(members), bound)


def _links(adjacent: Adjacent) -> sparse.csr_array:
    """The boolean adjacency matrix, sparse and without loops; raises `ValueError` if it is no graph's."""
    given = sparse.coo_array(adjacent)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError("adjacent must be a symmetric square matrix of booleans")
    joins = (given.data != 0) & (given.row != given.col)
    ends = (given.row[joins], given.col[joins])
    links = sparse.csr_array((np.ones(len(ends[0]), dtype=np.bool_), ends), shape=given.shape)
    links.sum_duplicates()
    mirrored = links.T.tocsr()
    mirrored.sort_indices()
    if not (np.array_equal(links.indptr, mirrored.indptr) and np.array_equal(links.indices, mirrored.indices)):
        raise ValueError("adjacent must be a symmetric square matrix of booleans")
    return links


def _lists(links: sparse.csr_array) -> tuple[IntArray, IntArray]:
    """The neighbours of u are `neighbours[starts[u] : starts[u + 1]]`."""
    return links.indptr.astype(np.int64), links.indices.astype(np.int64)


def _greedy_cliques(links: sparse.csr_array, enough: int) -> IntArray:
    """(n,) labels of a cover: cliques grow by first fit, then are merged by passes in other orders, down to `enough`.

    First fit puts each node into the first clique all of whose members are its neighbours. Taking the nodes clique by
    clique never gives more cliques than there were, whatever the order of the cliques, and often fewer (iterated
    greedy; Culberson, 1992): reversed, largest first, and shuffled with a fixed seed take turns. O(edges) each.
    """
    starts, neighbours = _lists(links)
    label = _first_fit(starts, neighbours, np.argsort(np.diff(starts), kind="stable"))
    shuffles = np.random.default_rng(0)
    for turn in range(_ROUNDS):
        cliques = _count(label)
        if cliques <= enough:
            break
        rank = (
            -np.arange(cliques),
            np.argsort(np.argsort(-np.bincount(label, minlength=cliques), kind="stable")),
            shuffles.permutation(cliques),
        )[turn % 3]
        label = _first_fit(starts, neighbours, np.argsort(rank[label], kind="stable"))
    return _largest_first(label)


def _count(label: IntArray) -> int:
    return int(label.max(initial=-1)) + 1


def _largest_first(label: IntArray) -> IntArray:
    """The same classes, numbered by size, then by lowest node."""
    _, first, class_of, sizes = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    return np.argsort(np.lexsort((first, -sizes)))[class_of]


def _shared_out(starts: IntArray, near: IntArray) -> int:
    """A lower bound on the domination number, from the closed neighbourhoods that `near` lists.

    Node u weighs 1 / (size of the largest closed neighbourhood that u is in). No closed neighbourhood weighs more than
    1, so a dominating set needs at least as many nodes as all nodes weigh.
    """
    sizes = np.diff(starts)
    largest = np.maximum.reduceat(sizes[near], starts[:-1]) if len(sizes) else sizes
    return math.ceil(float((1 / largest).sum()) - _TOLERANCE)


def _fewest(sets: Sequence[IntArray], best: IntArray, n: int, bound: int) -> tuple[IntArray, int]:
    """Fewer of the `sets` than `best`, covering all of 0..n-1, if we can find them; and a better lower `bound`.

    `best` and the result are indices of sets.
    """
    if len(best) <= _DEEPEST:
        best, complete = _search_fewer(sets, best, n)
        if complete:
            return best, len(best)
    rows = _incidence(sets, n).T.tocsr()
    _, proved = _programme(rows, many=False, nodes=0)
    bound = max(bound, math.ceil(proved - _TOLERANCE))
    if len(best) > bound and (n <= _MODEST or len(best) <= _PROMISING * proved):
        found, proved = _programme(rows, many=False, nodes=_NODES if n <= _MODEST else 1)
        best, bound = min(best, found, key=len), max(bound, math.ceil(proved - _TOLERANCE))
    return best, bound


def _most(sets: Sequence[IntArray], best: IntArray, n: int, bound: int) -> tuple[IntArray, int]:
    """More of 0..n-1 than `best`, no two of them in one set, if we can find them; and a better upper `bound`."""
    rows = _incidence(sets, n)
    _, proved = _programme(rows, many=True, nodes=0)
    bound = min(bound, math.floor(proved + _TOLERANCE))
    if len(best) < bound and (n <= _MODEST or proved <= _PROMISING * len(best)):
        found, proved = _programme(rows, many=True, nodes=_NODES if n <= _MODEST else 1)
        best, bound = max(best, found, key=len), min(bound, math.floor(proved + _TOLERANCE))
    return best, bound


def _incidence(sets: Sequence[IntArray], n: int) -> sparse.csr_array:
    """(sets, n): who is in which set."""
    rows = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    return sparse.csr_array((np.ones(len(rows)), (rows, np.concatenate(sets))), shape=(len(sets), n))


def _programme(rows: sparse.csr_array, *, many: bool, nodes: int) -> tuple[IntArray, float]:
    """Many columns of the 0/1 matrix `rows`, at most one in each row; or few, at least one in each row.

    Returns the columns, and the bound on their number that HiGHS proved within `nodes` nodes of its branching tree.
    With none, columns may be taken in part: that bounds their number, but chooses none.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    columns = rows.shape[1]
    answer = milp(
        np.full(columns, -1.0 if many else 1.0),
        integrality=np.full(columns, int(nodes > 0)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(rows, -np.inf if many else 1, 1 if many else np.inf),
        options={"node_limit": nodes, "mip_rel_gap": 0} if nodes else {},
    )
    everything = np.arange(columns)
    nothing = everything[:0]
    if not nodes and answer.fun is not None:
        return nothing, abs(answer.fun)
    if answer.x is None or answer.mip_dual_bound is None:
        return (nothing, float(columns)) if many else (everything, 0.0)
    chosen = np.flatnonzero(answer.x > 0.5)
    inside = np.asarray(rows[:, chosen].sum(axis=1))
    assert (inside <= 1).all() if many else (inside >= 1).all()
    return chosen, abs(answer.mip_dual_bound)


def _search_fewer(sets: Sequence[IntArray], best: IntArray, n: int) -> tuple[IntArray, bool]:
    """Covers with fewer sets than `best`, by branching on a node that few sets cover; and whether none was missed."""
    inside = [sum(1 << int(node) for node in each) for each in sets]
    holding = [0] * n
    for at, each in enumerate(sets):
        for node in each:
            holding[node] |= 1 << at
    rarest = sorted(range(n), key=lambda node: holding[node].bit_count())
    largest = max(map(len, sets))
    branches = 0

    def cover(left: int, count: int) -> list[int] | None:
        """`count` sets that cover what is `left`."""
        nonlocal branches
        branches += 1
        if branches > _BRANCHES:
            raise _SearchEnded
        if left.bit_count() > count * largest:
            return None
        uncovered = (node for node in rarest if left >> node & 1)
        if count == 1:
            common = -1
            for node in uncovered:
                common &= holding[node]
                if not common:
                    return None
            return [_lowest(common)] if common > 0 else []
        options = holding[next(uncovered)]
        while options:
            at = _lowest(options)
            options &= options - 1
            others = cover(left & ~inside[at], count - 1)
            if others is not None:
                return [at, *others]
        return None

    try:
        while len(best) > 1 and (found := cover((1 << n) - 1, len(best) - 1)) is not None:
            best = np.array(found)
    except _SearchEnded:
        return best, False
    return best, True


class _SearchEnded(Exception):  # noqa: N818
    """The search used up its branches."""


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


@jit
def _first_fit(starts: IntArray, neighbours: IntArray, order: IntArray) -> IntArray:
    """Put the nodes, in the given order, into the first clique that they are adjacent to all of, or a new one."""
    n = len(order)
    label, size, met = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    cliques = 0
    for node in order:
        around = neighbours[starts[node] : starts[node + 1]]
        for neighbour in around:
            if label[neighbour] >= 0:
                met[label[neighbour]] += 1
        chosen = cliques
        for neighbour in around:
            at = label[neighbour]
            if 0 <= at < chosen and met[at] == size[at]:
                chosen = at
        for neighbour in around:
            if label[neighbour] >= 0:
                met[label[neighbour]] = 0
        label[node] = chosen
        size[chosen] += 1
        cliques = max(cliques, chosen + 1)
    return label


@jit
def _greedy_independent(starts: IntArray, neighbours: IntArray) -> BoolArray:
    """Take the node with fewest neighbours left, drop those, and so on; ties to the lowest index. (n,) who is taken."""
    n = len(starts) - 1
    chosen, left = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    degree = starts[1:] - starts[:-1]
    while True:
        node = -1
        for other in range(n):
            if left[other] and (node < 0 or degree[other] < degree[node]):
                node = other
        if node < 0:
            return chosen
        chosen[node] = True
        left[node] = False
        for neighbour in neighbours[starts[node] : starts[node + 1]]:
            if left[neighbour]:
                left[neighbour] = False
                for other in neighbours[starts[neighbour] : starts[neighbour + 1]]:
                    degree[other] -= 1


@jit
def _greedy_dominating(starts: IntArray, near: IntArray) -> BoolArray:
    """Take the node that dominates most of what is left, and so on; then drop those that turned out superfluous.

    At most 1 + ln(1 + largest degree) times as many as needed (greedy set cover; Chvatal, 1979). `near` lists closed
    neighbourhoods. (n,) who is taken.
    """
    n = len(starts) - 1
    chosen, dominators = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    gain, order = starts[1:] - starts[:-1], np.empty(n, np.int64)
    taken = 0
    while True:
        node = -1
        for other in range(n):
            if gain[other] > 0 and (node < 0 or gain[other] > gain[node]):
                node = other
        if node < 0:
            break
        chosen[node] = True
        order[taken] = node
        taken += 1
        for each in near[starts[node] : starts[node + 1]]:
            dominators[each] += 1
            if dominators[each] == 1:
                for other in near[starts[each] : starts[each + 1]]:
                    gain[other] -= 1
    for at in range(taken - 1, -1, -1):
        node = order[at]
        superfluous = True
        for each in near[starts[node] : starts[node + 1]]:
            superfluous = superfluous and dominators[each] > 1
        if superfluous:
            chosen[node] = False
            for each in near[starts[node] : starts[node + 1]]:
                dominators[each] -= 1
    return chosen


@jit
def _disjoint_neighbourhoods(starts: IntArray, near: IntArray, order: IntArray) -> int:
    """How many of the closed neighbourhoods that `near` lists a pass in the given order finds to be disjoint.

    Each must hold a dominating node of its own.
    """
    taken = np.zeros(len(order), np.bool_)
    count = 0
    for node in order:
        free = True
        for each in near[starts[node] : starts[node + 1]]:
            free = free and not taken[each]
        if free:
            count += 1
            for each in near[starts[node] : starts[node + 1]]:
                taken[each] = True
    return count
