"""Metering without the interpreter: what compiled conversations write their counts into; see `contract.compiled`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.ledger import Ledger, row_of
from fedbandits.contract.wire import Direction, Wire
from fedbandits.linalg.jit import jit_inside

Speech = tuple[tuple[str, Direction], ...]
"""Kinds of messages with their directions, which compiled conversations know by their place in it."""

UNKNOWN = -1


class Books(NamedTuple):
    """A ledger, and what a share of each message of a `Speech` weighs."""

    counts: IntArray
    """(3, 4) the ledger's, by direction and unit."""
    conversations: IntArray
    """(1,) the ledger's."""
    prices: IntArray
    """(m, 3) row of its direction in `counts`, scalars, bytes; no bytes are a signal's. What was never checked, none of
    its kind having passed the wire, has no price: a row of `UNKNOWN`."""
    by_step: IntArray
    """(T, 3, 4) `counts` after every step."""
    syncs: IntArray
    """(T,) `conversations` after every step."""


def books_of(ledger: Ledger, wire: Wire, speech: Speech, by_step: IntArray, syncs: IntArray) -> Books:
    """What conversations of that `speech` are counted in; `by_step` and `syncs` are a run's records of the ledger."""
    prices = np.full((len(speech), 3), UNKNOWN, dtype=np.int64)
    for place, (kind, direction) in enumerate(speech):
        size = wire.passed(kind, direction)
        if size is not None:
            prices[place] = row_of(direction), size.scalars, size.bytes
    return Books(ledger.counts, ledger.conversations.reshape(1), prices, by_step, syncs)


def priced(books: Books) -> bool:
    """Whether everything that may be said can be counted."""
    return not (books.prices == UNKNOWN).any()


@jit_inside
def call(books: Books, callers: int) -> None:
    """What `Ledger.call` counts."""
    books.counts[0, 1] += callers


@jit_inside
def record(books: Books, kind: int, times: int) -> None:
    """What `Ledger.record` counts for a message of the given place in the speech to or from `times` agents."""
    row = books.prices[kind, 0]
    if books.prices[kind, 2] == 0:
        books.counts[row, 1] += times
        return
    books.counts[row, 0] += times
    books.counts[row, 2] += times * books.prices[kind, 1]
    books.counts[row, 3] += times * books.prices[kind, 2]


@jit_inside
def synchronised(books: Books) -> None:
    """What `Ledger.synchronised` counts."""
    books.conversations[0] += 1


@jit_inside
def close(books: Books, step: int) -> None:
    """Note what has been counted by the end of `step`."""
    for row in range(books.counts.shape[0]):
        for unit in range(books.counts.shape[1]):
            books.by_step[step, row, unit] = books.counts[row, unit]
    books.syncs[step] = books.conversations[0]
