"""Binary heaps in lists of cells: whose time comes first is at the front.

An entry is a pair (due, value) in two cells; the children of entry j are entries 2j + 1 and 2j + 2. All functions work
on list (i, k); see `rows`.
"""

from __future__ import annotations

from fedbandits.algorithms.armed.estimators.rows import Lists
from fedbandits.contract.arrays import Index
from fedbandits.linalg.jit import jit_part


@jit_part
def full(lists: Lists, i: Index, k: Index) -> bool:
    """Whether there is no room for another entry."""
    return bool(lists.lengths[i, k] + 2 > lists.rooms[i, k])


@jit_part
def push(lists: Lists, i: Index, k: Index, due: float, value: float) -> None:
    """Add an entry to a heap that is not full."""
    cells, root = lists.cells, lists.starts[i, k]
    at = lists.lengths[i, k] // 2
    lists.lengths[i, k] += 2
    while at > 0:
        parent = (at - 1) // 2
        if cells[root + 2 * parent] <= due:
            break
        cells[root + 2 * at] = cells[root + 2 * parent]
        cells[root + 2 * at + 1] = cells[root + 2 * parent + 1]
        at = parent
    cells[root + 2 * at] = due
    cells[root + 2 * at + 1] = value


@jit_part
def pop(lists: Lists, i: int, k: int) -> None:
    """Take out the first entry of a heap that is not empty."""
    cells, root = lists.cells, lists.starts[i, k]
    lists.lengths[i, k] -= 2
    size = lists.lengths[i, k] // 2
    due, value = cells[root + 2 * size], cells[root + 2 * size + 1]
    at, child = 0, 1
    while child < size:
        if child + 1 < size and cells[root + 2 * child + 2] < cells[root + 2 * child]:
            child += 1
        if due <= cells[root + 2 * child]:
            break
        cells[root + 2 * at] = cells[root + 2 * child]
        cells[root + 2 * at + 1] = cells[root + 2 * child + 1]
        at, child = child, 2 * child + 1
    cells[root + 2 * at] = due
    cells[root + 2 * at + 1] = value
