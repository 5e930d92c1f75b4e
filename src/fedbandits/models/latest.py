"""The latest that every agent has heard from each agent within reach."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, IntArray, State
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import DType
from fedbandits.graphs.hops import pairs_by_distance
from fedbandits.linalg.jit import jit

BORN = "born"


class Latest(Stateful):
    """For every pair (listener, origin) whose messages reach each other: the newest of named arrays, and its round.

    `fields` gives the shape and type of what one agent tells, by name. Pairs are those at 1..hops hops at `place`,
    listener by listener, origins rising: agent i holds rows `starts[i]` to `starts[i+1]`, so that alone it would hold
    just these. Where there is no place nobody is within reach. With `circles` (M,), one number for each agent of the
    problem, pairs of different circles are left out: whoever takes in letters leaves theirs out, too.
    """

    def __init__(
        self,
        place: Place | None,
        identities: IntArray,
        fields: Mapping[str, tuple[tuple[int, ...], DType]],
        circles: IntArray | None = None,
    ) -> None:
        if BORN in fields:
            raise ValueError(f"{BORN!r} is the round in which something was said; give the field another name")
        self.starts, self.origins = _within_reach(place, identities, circles)
        """(n+1,) where each agent's rows begin, and (E,) the origin of each row."""
        pairs = len(self.origins)
        self.kept: dict[str, Array] = {
            name: np.zeros((pairs, *shape), dtype) for name, (shape, dtype) in fields.items()
        }
        """(E, ...) what was told last, by name; 0 before anything was."""
        self.born = np.full(pairs, -1)
        """(E,) the round in which it was said; -1 before."""

    def take(self, inbox: Inbox, **told: Array) -> None:
        """Take in letters, of which `told` has one row (rows, ...) for each of `inbox.said`, under the fields' names.

        What is older than what is known already is dropped, in whatever order letters arrive.
        """
        self._check(told, len(inbox.born))
        places = _places(self.starts, self.origins, inbox.to, inbox.row, inbox.said.who)
        if len(places) and places.min() < 0:
            lost = int(np.argmin(places))
            raise ValueError(
                f"a letter from agent {inbox.said.who[inbox.row[lost]]} reached an agent that is not within its reach: "
                "the network of the relay is not that of the problem"
            )
        newer = _newer(places, inbox.row, inbox.born, self.born)
        for name, held in self.kept.items():
            width = math.prod(held.shape[1:])
            rows = np.ascontiguousarray(told[name]).reshape(len(inbox.born), width)
            _copy(newer, places, inbox.row, rows, held.reshape(len(held), width))

    def _check(self, told: Mapping[str, Array], rows: int) -> None:
        if told.keys() != self.kept.keys():
            raise ValueError(f"letters need {sorted(self.kept)}, got {sorted(told)}")
        for name, held in self.kept.items():
            if told[name].shape != (rows, *held.shape[1:]) or told[name].dtype != held.dtype:
                raise ValueError(
                    f"{name} of letters must be {held.dtype} of shape {(rows, *held.shape[1:])}, got "
                    f"{told[name].dtype} of shape {told[name].shape}"
                )

    def _arrays(self, prefix: str = "") -> State:
        return {prefix + name: array for name, array in {**self.kept, BORN: self.born}.items()}

    def _share(self, agent: int, prefix: str) -> State:
        rows = slice(self.starts[agent], self.starts[agent + 1])
        return {name: array[rows] for name, array in self._arrays(prefix).items()}

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        for name, array in self._arrays(prefix).items():
            array[...] = state[name]


def _within_reach(place: Place | None, identities: IntArray, circles: IntArray | None) -> tuple[IntArray, IntArray]:
    n = len(identities)
    if place is None or place.hops == 0:
        return np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    rings = pairs_by_distance(place.graph, place.hops)[1:]
    origin = np.concatenate([ring.origin for ring in rings])
    to = np.concatenate([ring.to for ring in rings])
    local = np.full(place.graph.number_of_nodes(), -1)
    local[identities] = np.arange(n)
    here = local[to] >= 0
    if circles is not None:
        here &= circles[origin] == circles[to]
    origin, listener = origin[here], local[to[here]]
    starts = np.concatenate([[0], np.cumsum(np.bincount(listener, minlength=n))])
    return starts, origin[np.lexsort((origin, listener))]


# unsigned indices, since these are innermost loops: signed ones would be tested for counting from the end
@jit
def _places(starts: IntArray, origins: IntArray, to: IntArray, row: IntArray, said_by: IntArray) -> IntArray:
    """(letters,) the row that each letter belongs to, -1 where there is none."""
    places = np.empty(len(to), np.int64)
    for e in range(len(to)):
        origin = said_by[row[e]]
        low, high = np.uint64(starts[to[e]]), np.uint64(starts[to[e] + 1])
        end = high
        while low < high:
            middle = (low + high) >> np.uint64(1)
            if origins[middle] < origin:
                low = middle + np.uint64(1)
            else:
                high = middle
        places[e] = np.int64(low) if low < end and origins[low] == origin else -1
    return places


@jit
def _newer(places: IntArray, row: IntArray, born: IntArray, kept_born: IntArray) -> IntArray:
    """The letters that are newer than what was kept when it was their turn, whose rounds are kept from now on."""
    newer = np.empty(len(places), np.int64)
    count = 0
    for e in range(len(places)):
        if born[row[e]] > kept_born[places[e]]:
            kept_born[places[e]] = born[row[e]]
            newer[count] = e
            count += 1
    return newer[:count]


@jit
def _copy(newer: IntArray, places: IntArray, row: IntArray, told: Array, kept: Array) -> None:
    for e in newer:
        place, r = np.uint64(places[e]), np.uint64(row[e])
        for k in range(np.uint64(told.shape[1])):
            kept[place, k] = told[r, k]
