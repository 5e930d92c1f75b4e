"""Letters between peers without the interpreter: rounds in which everybody speaks, and nothing goes wrong.

What `contract.compiled.hear` is for a server, a `Post` is for a network: after every step all agents `tell`, what they
say moves on, is counted, and those whom it reaches `heed` it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.booking import Books, record, synchronised
from fedbandits.contract.compiled import HEARD, PENDING, State, attend, has_room, hear, heed_all, stands_for, tell
from fedbandits.linalg.jit import jit_inside

ABREAST = 8
"""Receivers whose letters are listed side by side."""


class Abreast(NamedTuple):
    """The letters of a round, those of `ABREAST` receivers side by side, so that all of these can take in one each at a
    time: letter m of receiver `receivers[ABREAST g + j]` is `rows[ABREAST (starts[g] + m) + j]`.
    """

    receivers: IntArray
    """(n,) all agents, those with most letters first."""
    starts: IntArray
    """(number of groups + 1,)."""
    rows: NDArray[np.int32]
    """a n + u for what u said a rounds ago, and ttl n where a receiver has no letter left, or where there is none."""


class Post(NamedTuple):
    """What n agents have said in their last `ttl` rounds, and where it goes. Row r of what is said is by one agent in
    one round: by agent u in round s it is row (s mod ttl) n + u. Letter e is one of these rows for one receiver; see
    `letter`. Letters are in the order of an `Inbox`.
    """

    said: FloatArray
    """(ttl n, size) what `tell` has written; NaN behind the numbers of messages that were said before."""
    born: IntArray
    """(ttl n,) the round of each row."""
    who: IntArray
    """(ttl n,) by whom it is."""
    round: IntArray
    """(1,) the round that is next."""
    starts: IntArray
    """(n + 1,) letters `starts[i]` to `starts[i + 1]` are for agent i."""
    behind: IntArray
    """For what u said a rounds ago: u - a n, by how many rows that comes after the first of the newest round, but for
    going round."""
    reached_from: IntArray
    """(ttl n + 1,) what u said a rounds ago reaches `reached[reached_from[a n + u]:reached_from[a n + u + 1]]`."""
    reached: NDArray[np.int32]
    """The receivers of all letters, in the order of what is said instead of that of receivers."""
    abreast: Abreast
    """The same letters once more."""
    links: int
    """How many links all that is under way crosses in a round."""


@jit_inside
def letter(post: Post, newest: int, e: int) -> Index:
    """The row of letter e in a round in which what was said begins at row `newest`."""
    row = newest + post.behind[np.uint64(e)]
    return np.uint64(row + len(post.born) if row < 0 else row)


@stands_for(hear, Post)
@jit_inside
def _deliver(post: Post, agents: State, due: bool, books: Books) -> int:
    n, rows = len(post.starts) - 1, len(post.born)
    for i in range(n):
        if not has_room(agents, i, post.starts[i + 1] - post.starts[i]):
            return PENDING
    newest = (post.round[0] * n) % rows
    for i in range(n):
        tell(agents, i, post.said, newest + i)
        post.born[newest + i] = post.round[0]
    synchronised(books)
    record(books, 0, post.links)
    heed_all(agents, post, newest)
    post.round[0] += 1
    return HEARD


@stands_for(attend, Post)
@jit_inside
def _know_already(post: Post, i: int) -> bool:
    return True
