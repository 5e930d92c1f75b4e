"""What of a pool has not reached its agents, for compiled conversations: uploads, and what is lacking downwards.

Servers that keep for each agent what it knows of a pool (AsyncLinUCB's of one, FCLUB's of one for each cluster) send it
the difference once that is worth a factor in the determinant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.booking import Books, Speech, call, record, synchronised
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.models.late import Late, catch_up, let_know, logdet_of
from fedbandits.models.ridge import RidgeSums
from fedbandits.models.sharing import COLLECT, FRESH, NEWS
from fedbandits.models.triggers import Watch

SPEECH: Speech = ((COLLECT.kind, "down"), (FRESH.kind, "up"), (NEWS.kind, "down"))
"""What is said: callers are asked, they hand over, and whoever lacks enough is told."""


class Lags(NamedTuple):
    """Pools, and what each agent knows of its own."""

    late: Late
    pools: RidgeSums
    rows: IntArray
    """(n,) each agent's pool."""
    pool_logdet: FloatArray
    """(m,) log-determinants of the pools."""
    known: RidgeSums
    """(n, ...) what of its pool each agent has."""
    known_logdet: FloatArray
    unseen: IntArray
    """(n,) uploads to its pool that have not reached an agent."""
    threshold: float
    """By how much the log-determinant of a pool has to exceed that of what is known."""


@jit_part
def takes_out(late: Late, callers: int) -> bool:
    """Whether any of the first callers would hand over less than nothing, its gram having a negative trace."""
    late = borrowed(late)
    gram = late.agents.fresh.gram
    for a in range(callers):
        trace = 0.0
        for j in range(gram.shape[1]):
            trace += gram[late.callers[a], j, j]
        if trace < 0.0:
            return True
    return False


@jit_part
def note_uploads(lags: Lags, callers: int) -> bool:
    """The first callers are about to hand over what is fresh: they know it; others of their pools lack an upload more.
    False where nothing follows from that.
    """
    lags = borrowed(lags)
    late, known, rows = lags.late, lags.known, lags.rows
    fresh, ridge = late.agents.fresh, late.agents.ridge
    d = fresh.moment.shape[1]
    for a in range(callers):
        i = late.callers[a]
        if not catch_up(late, i):
            return False
        for j in range(d):
            for k in range(d):
                known.gram[i, j, k] += fresh.gram[i, j, k]
            known.moment[i, j] += fresh.moment[i, j]
        known.seen[i] += fresh.seen[i] if late.agents.counted else 0.0
        lags.known_logdet[i] = logdet_of(known, i, ridge, late.room)
        if not abs(lags.known_logdet[i]) < np.inf:
            return False
        for j in range(len(rows)):
            lags.unseen[j] += 1 if rows[j] == rows[i] and j != i else 0
    return True


@jit_part
def tell_news(lags: Lags, watch: Watch) -> int:
    """Tell everybody who lacks enough what it lacks; how many, or -1 where nothing follows from it."""
    lags = borrowed(lags)
    late, pools, known, unseen = lags.late, lags.pools, lags.known, lags.unseen
    base, counted = late.agents.base, late.agents.counted
    d = base.moment.shape[1]
    told = 0
    for i in range(len(unseen)):
        row = lags.rows[i]
        behind = lags.pool_logdet[row] - lags.known_logdet[i]
        if not (behind > lags.threshold and unseen[i] > 0):
            continue
        for j in range(d):
            for k in range(d):
                base.gram[i, j, k] += pools.gram[row, j, k] - known.gram[i, j, k]
                known.gram[i, j, k] = pools.gram[row, j, k]
            base.moment[i, j] += pools.moment[row, j] - known.moment[i, j]
            known.moment[i, j] = pools.moment[row, j]
        base.seen[i] += pools.seen[row] - known.seen[i] if counted else 0.0
        known.seen[i] = pools.seen[row]
        lags.known_logdet[i], unseen[i] = lags.pool_logdet[row], 0
        if not let_know(late, watch, i):
            return -1
        told += 1
    return told


@jit_inside
def book(books: Books, callers: int, told: int) -> None:
    """Count a conversation of `SPEECH` with so many callers, in which so many were told something."""
    call(books, callers)
    synchronised(books)
    record(books, 0, callers)
    record(books, 1, callers)
    if told:
        record(books, 2, told)
