"""The relay that copes with everything: flooding under losses, delays, corruption and absences.

Every agent that receives a message for the first time reads it and, while life is left, forwards it once to all its
neighbours, also to the one it came from. In detail:

- What is said in round s, and what is received at the end of round s - 1, is transmitted in round s. A transmission in
  round s with delay d arrives at the end of round s + d, with one hop less to live. It counts on the ledger
  whether or not it arrives, and whether or not the receiver knows the message already.
- Of several copies of one message that arrive at one agent in one round, the one with most life left is read, of those
  the one from the lowest-numbered sender. Copies of what the agent has read before are ignored, even if they
  have more life left: under delays a message may therefore stop short of agents at distance `ttl`.
- An agent that is out of reach in a round neither transmits nor receives. What arrives meanwhile is lost to it, unless
  another copy comes later. What it would have transmitted, its own words included, it transmits in the first round in
  which it is back, unless the message is then older than (ttl - 1) (1 + delay_max) + `PATIENCE` rounds: messages of
  that age are no longer forwarded by anybody, which bounds what has to be remembered.

With no faults and nobody absent, this is the closed form, letter by letter (Dubey 2022, thesis, section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import networkx as nx
import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, State, check_state
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.wire import Wire
from fedbandits.graphs.hops import adjacency, pairs_by_distance
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.transport.corruption import ARM, Corruption
from fedbandits.transport.letters import (
    alike,
    check_alike,
    in_order,
    resized,
    room_of,
    sealed,
    starts_of,
    taken,
    taken_all,
)
from fedbandits.transport.mishaps import Mishaps, delayed, lost

_MOST_TABLED = 4096
_NEVER = np.iinfo(np.uint16).max
PATIENCE = 32
"""For how many extra rounds messages are kept where agents may be out of reach."""


class Flooding:
    """Flooding of one kind of message, with all copies as arrays.

    Messages live on *pages*, one for each round in which they may have been said, used in turn; a message's *slot* is
    its page and origin. For each slot there is a *seat* for every agent within reach of the origin, which says whether
    that agent has read the message. Memory is pages times pairs of agents within `ttl` hops, and the copies under way.

    Of the many copies that reach an agent one is read. Those that cannot be it are counted, and followed no further:
    copies sent in the same round, to arrive in the same round, of which another one has more life left or a sender
    with a lower number; and, where nobody is ever absent, those that arrive after another one.
    """

    def __init__(
        self, place: Place, mishaps: Mishaps, corruption: Corruption, absences: bool, ledger: Ledger, wire: Wire
    ) -> None:
        ttl = place.hops
        if ttl < 0:
            raise ValueError(f"ttl must not be negative, got {ttl}")
        self._ttl = ttl
        self._ledger = ledger
        self._wire = wire
        self._mishaps = mishaps
        self._ground = _ground(place.graph, ttl)
        self._n = place.graph.number_of_nodes()
        longest = len(mishaps.tails)
        self._last_age = (ttl - 1) * (1 + longest) + (PATIENCE if absences else 0)
        """Beyond it nobody forwards a message; without absences no message is ever forwarded as late."""
        self._pages = max(1, self._last_age + longest + 1)
        if self._pages > _NEVER:
            raise ConfigError(
                f"network: messages would live for {self._pages} rounds, more than {_NEVER}; lower ttl or delay_max"
            )
        self._corruption = corruption
        self._born = np.full(self._pages, -1, dtype=np.int64)
        """The round whose messages are on each page."""
        self._absences = absences
        self._read = np.zeros((self._pages, len(self._ground.within)), dtype=np.bool_)
        """For each page and seat: whether the message was read there."""
        self._expected = np.full((2, self._read.size), _NEVER, dtype=np.uint16)
        """For each page and seat: when the first copy on its way there arrives, and when the last such was sent, in
        rounds since the message was said."""
        self._posted: Message | None = None
        """The messages of all slots, as they left their origins, padded to the longest so far; None before anybody has
        spoken."""
        self._desks = _Copies.none()
        """What agents are going to transmit."""
        self._due: dict[int, list[_Copies]] = {}
        """What is under way, by the round in which it arrives."""

    def check(self, step: int, reachable: BoolArray | None) -> None:
        """Raise unless round `step` is the next one."""
        if step <= self._born.max() or step > min(self._due, default=step):
            raise ValueError(f"rounds must be called one after another, {step} is not the next one")

    def move(self, said: Message | None, step: int, reachable: BoolArray | None = None) -> Inbox | None:
        """Move what is said, and everything under way, one hop."""
        there = np.ones(self._n, dtype=np.bool_) if reachable is None else reachable
        self._desks = self._desks.take(step - self._born[self._desks.slot // self._n] <= self._last_age)
        self._corruption.look()
        if said is not None:
            self._post(said, step)
        self._transmit(step, there)
        return self._delivered(step, there)

    def state(self) -> State:
        """The messages that live, who has read them, all copies under way, and what a tamperer remembers."""
        batches = [(due, copies) for due in sorted(self._due) for copies in self._due[due]]
        under_way = _Copies.joined([copies for _, copies in batches])
        rounds = np.concatenate([np.zeros(0), *(np.full(len(copies.slot), due) for due, copies in batches)])
        kept: State = {
            "born": self._born.copy(),
            "read": np.packbits(self._read),
            "kind": np.zeros(0, dtype=np.uint8),
            "due": rounds.astype(np.int64),
        }
        kept |= self._desks.named("desk.") | under_way.named("under_way.")
        kept |= {f"corruption.{name}": array for name, array in self._corruption.state().items()}
        if self._posted is not None:
            kept["kind"] = np.frombuffer(self._posted.kind.encode(), dtype=np.uint8).copy()
            kept |= {f"posted.{name}": array.copy() for name, array in self._posted.arrays.items()}
            kept |= {f"length.{name}": length.copy() for name, length in self._posted.lengths.items()}
        return kept

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up all that was under way; raises before anything has changed."""
        left = {name: np.array(array) for name, array in state.items()}
        kind = taken(left, "kind").tobytes().decode()
        posted = None
        if kind:
            arrays, lengths = taken_all(left, "posted."), taken_all(left, "length.")
            posted = Message(kind, np.tile(np.arange(self._n), self._pages), arrays, lengths)
            self._wire.check(posted, "peer")
        desks, under_way = (_Copies.named_in(left, prefix) for prefix in ("desk.", "under_way."))
        for copies in (desks, under_way):
            self._check(copies, posted)
        rounds = taken(left, "due")
        if rounds.shape != under_way.slot.shape or rounds.dtype != np.int64:
            raise ValueError("the snapshot's due does not say when each copy under way arrives")
        remembered = taken_all(left, "corruption.")
        check_state(left, {"born": self._born, "read": np.packbits(self._read)})
        self._corruption.load(remembered)
        self._posted, self._desks = posted, desks
        self._due = {}
        for due in np.unique(rounds):
            batch = under_way.take(rounds == due)
            self._due[int(due)] = [batch.take(self._by_precedence(batch.life, batch.sender))]
        self._born = left["born"]
        self._read = np.unpackbits(left["read"], count=self._read.size).reshape(self._read.shape).astype(np.bool_)
        self._expected[:] = _NEVER
        np.minimum.at(self._expected[0], under_way.seat, rounds - self._born[under_way.slot // self._n])

    def _check(self, copies: _Copies, posted: Message | None) -> None:
        """Raise unless a snapshot's copies are of messages that exist, and at places that do."""
        if len(copies.slot) and posted is None:
            raise ValueError("the snapshot holds copies of messages that it lacks")
        sizes = {
            "slot": self._pages * self._n,
            "at": self._n,
            "sender": self._n,
            "life": self._ttl + 1,
            "seat": self._read.size,
        }
        for name, size in sizes.items():
            column = getattr(copies, name)
            if len(column) and not 0 <= column.min() <= column.max() < size:
                raise ValueError(f"the snapshot's copies have a {name} outside 0..{size - 1}")

    def _post(self, said: Message, step: int) -> None:
        """Put what is said on the page of this round, and on the desks of those who said it."""
        self._corruption.watch(said)
        held = self._held_for(said)
        page = step % self._pages
        self._born[page] = step
        self._read[page] = False
        self._read[page, self._ground.home[said.who]] = True
        self._expected.reshape(2, *self._read.shape)[:, page] = _NEVER
        leaving = self._corruption.at_source(said, step)
        slot = page * self._n + said.who
        if leaving.lengths:
            leaving = resized(leaving, room_of(held, self._wire), self._wire)
        for name, array in leaving.arrays.items():
            held.arrays[name][slot] = array
        for name, length in leaving.lengths.items():
            held.lengths[name][slot] = length
        own = _Copies(
            slot=slot,
            at=said.who,
            sender=said.who,
            life=np.full(len(slot), self._ttl),
            seat=page * self._read.shape[1] + self._ground.home[said.who],
            numbers=self._corruption.numbers(leaving) if self._corruption.in_transit else np.zeros((len(slot), 0)),
        )
        self._desks = _Copies.joined([self._desks, own])

    def _held_for(self, said: Message) -> Message:
        """Room for messages like `said`; what is still under way must be like it too."""
        if self._posted is not None and (len(self._desks.slot) or self._due):
            check_alike(self._posted, said, self._wire)
        elif self._posted is None or not alike(self._posted, said, self._wire):
            slots = self._pages * self._n
            arrays = {name: np.zeros((slots, *a.shape[1:]), a.dtype) for name, a in said.arrays.items()}
            lengths = {name: np.zeros(slots, np.int64) for name in said.lengths}
            posted = Message(said.kind, np.tile(np.arange(self._n), self._pages), arrays, lengths)
            self._posted = resized(posted, _most(said.lengths), self._wire)
        if said.lengths:
            room, needed = room_of(self._posted, self._wire), _most(said.lengths)
            self._posted = resized(self._posted, {name: max(room[name], needed[name]) for name in room}, self._wire)
        return self._posted

    def _transmit(self, step: int, there: BoolArray) -> None:
        """Send everything on the desks of those who are there over all their links."""
        free = there[self._desks.at]
        sent, self._desks = self._desks.take(free), self._desks.take(~free)
        sent = sent.take(self._by_precedence(sent.life, sent.at))
        degrees = self._ground.link_starts[sent.at + 1] - self._ground.link_starts[sent.at]
        links = int(degrees.sum())
        if self._posted is None or links == 0:
            return
        self._count(self._posted, sent.slot, degrees)
        parent, to, seat, delay = _transmit(
            self._ground,
            self._mishaps,
            self._born,
            self._read.reshape(-1),
            self._expected,
            sent.slot,
            sent.at,
            step,
            self._absences,
            links,
        )
        slot, sender = sent.slot[parent], sent.at[parent]
        numbers = sent.numbers[parent]
        if self._corruption.in_transit:
            page, origin = np.divmod(slot, self._n)
            arm = self._posted.arrays[ARM][slot] if ARM in self._posted.arrays else None
            numbers = self._corruption.on_the_way(numbers, arm, origin, self._born[page], sender, to)
        copies = _Copies(slot, to, sender, sent.life[parent] - 1, seat, numbers)
        if not len(self._mishaps.tails):
            self._due.setdefault(step, []).append(copies)
            return
        order, starts = in_order(delay, self._pages), starts_of(delay, self._pages)
        for wait in np.flatnonzero(np.diff(starts)):
            batch = copies.take(order[starts[wait] : starts[wait + 1]])
            self._due.setdefault(step + int(wait), []).append(batch)

    def _count(self, posted: Message, slot: IntArray, links: IntArray) -> None:
        """Put transmissions on the ledger: of the message in each `slot`, over so many `links`."""
        if posted.lengths:
            slots, place = np.unique(slot, return_inverse=True)
            copies = np.zeros(len(slots), dtype=np.int64)
            np.add.at(copies, place, links)
            self._ledger.record(posted.of(slots), "peer", self._wire, copies)
        else:  # all of them weigh the same
            self._ledger.record(posted.of(slot[:1]), "peer", self._wire, links.sum(keepdims=True))

    def _delivered(self, step: int, there: BoolArray) -> Inbox | None:
        """What arrives, is new to those it arrives at, and is read by them, since they are there."""
        batches = self._due.pop(step, [])
        arrived = _Copies.joined(batches)
        # what was sent in one round is in this order already
        order = np.arange(len(arrived.at)) if len(batches) < 2 else self._by_precedence(arrived.life, arrived.sender)
        first = _first_copies(order, arrived.seat, arrived.at, there, self._read.reshape(-1))
        new = arrived if len(batches) < 2 and len(first) == len(order) else arrived.take(first)
        if self._posted is None or len(new.slot) == 0:
            return None
        self._desks = _Copies.joined([self._desks, new.take(new.life > 0)])
        return self._inbox(self._posted, new, step)

    def _by_precedence(self, life: IntArray, sender: IntArray) -> IntArray:
        """The order in which copies that arrive together count: most life left first, then by number of the sender."""
        order = in_order(sender, self._n)
        return order[in_order(self._ttl - life[order], self._ttl + 1)]

    def _inbox(self, posted: Message, new: _Copies, step: int) -> Inbox:
        page, origin = np.divmod(new.slot, self._n)
        order = in_order(origin, self._n)
        order = order[in_order((step - self._born[page])[order], self._pages)]
        by_receiver = in_order(new.at[order], self._n)
        slots, letters = new.slot[order], order[by_receiver]
        if self._corruption.in_transit:
            rows, row = slots[by_receiver], np.arange(len(slots))
        else:
            first = np.concatenate([[True], slots[1:] != slots[:-1]])
            rows, row = slots[first], (np.cumsum(first) - 1)[by_receiver]
        said = posted.of(rows)
        if said.lengths:
            said = resized(said, _most(said.lengths), self._wire)
        if self._corruption.in_transit:
            said = replace(said, arrays=self._corruption.rewritten(said.arrays, new.numbers[letters]))
        return Inbox(said, self._born[rows // self._n], sealed(new.at[letters]), sealed(row))


def _most(lengths: Mapping[str, IntArray]) -> dict[str, int]:
    return {name: int(length.max(initial=0)) for name, length in lengths.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """Copies of messages: which message, at whom (or to whom), from whom, the hops left, the seat of `at`, and, where
    transmissions change them, the raw numbers (c, R) it carries.
    """

    slot: IntArray
    at: IntArray
    sender: IntArray
    life: IntArray
    seat: IntArray
    numbers: FloatArray

    @classmethod
    def none(cls) -> _Copies:
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, empty, empty, np.zeros((0, 0)))

    @classmethod
    def joined(cls, batches: Sequence[_Copies]) -> _Copies:
        held = [batch for batch in batches if len(batch.slot)]
        if len(held) < 2:
            return held[0] if held else cls.none()
        return cls(*(np.concatenate([getattr(one, name) for one in held]) for name in _COLUMNS))

    @classmethod
    def named_in(cls, state: State, prefix: str) -> _Copies:
        """Taken out of `state`, where `named` put them."""
        found = cls(*(taken(state, prefix + name) for name in _COLUMNS))
        for name, expected in cls.none().named("").items():
            array = getattr(found, name)
            if array.dtype != expected.dtype or array.ndim != expected.ndim or len(array) != len(found.slot):
                raise ValueError(f"the snapshot's {prefix}{name} does not fit its {len(found.slot)} copies")
        return found

    def named(self, prefix: str) -> State:
        return {prefix + name: getattr(self, name).copy() for name in _COLUMNS}

    def take(self, index: IntArray | BoolArray) -> _Copies:
        if index.dtype == np.bool_ and index.all():
            return self
        return _Copies(*(getattr(self, name)[index] for name in _COLUMNS))


_COLUMNS = tuple(column.name for column in fields(_Copies))


class _Ground(NamedTuple):
    """The graph, as compiled code takes it.

    Agent i has links to `links[link_starts[i]:link_starts[i + 1]]`; within `ttl` hops of it are
    `within[within_starts[i]:within_starts[i + 1]]`, ascending, itself among them at place `home[i]` of `within`.
    """

    link_starts: IntArray
    links: IntArray
    within_starts: IntArray
    within: IntArray
    home: IntArray
    places: Array
    """(n, n) the place of each agent among those within reach of each origin, if there are few enough agents for such a
    table; otherwise (0, 0), and places are searched for."""


def _ground(network: nx.Graph[int], ttl: int) -> _Ground:
    links = adjacency(network)
    links.sort_indices()
    n = links.shape[0]
    pairs = pairs_by_distance(network, ttl)
    origin, to = (np.concatenate([getattr(one, end) for one in pairs]) for end in ("origin", "to"))
    order = in_order(to, n)
    order = order[in_order(origin[order], n)]
    origin, to = origin[order], to[order]
    places = np.zeros((n, n) if n <= _MOST_TABLED else (0, 0), dtype=np.int32)
    if n <= _MOST_TABLED:
        places[origin, to] = np.arange(len(to))
    return _Ground(
        link_starts=links.indptr.astype(np.int64),
        links=links.indices.astype(np.int64),
        within_starts=starts_of(origin, n),
        within=to,
        home=np.flatnonzero(origin == to),
        places=places,
    )


@jit_part
def _place(ground: _Ground, origin: int, agent: int) -> int:
    """The place of `agent` among those within reach of `origin`, from the table or by bisection."""
    if len(ground.places):
        return int(ground.places[origin, agent])
    low = int(ground.within_starts[origin])
    high = int(ground.within_starts[origin + 1]) - 1
    while low < high:
        middle = (low + high) // 2
        if ground.within[middle] < agent:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _transmit(
    ground: _Ground,
    mishaps: Mishaps,
    born: IntArray,
    read: BoolArray,
    expected: Array,
    slot: IntArray,
    at: IntArray,
    step: int,
    absences: bool,
    links: int,
) -> IntArray:
    """(4, c) Send copies, given by precedence, over all their `links`. Of those that may be read: the index of what was
    sent, to whom, the seat there, and by how many rounds it is delayed.
    """
    n, seats = len(ground.home), len(ground.within)
    sent = np.empty((4, links), np.int64)
    count = 0
    # whether a copy that need not be read if it arrives at once need not be read later either
    early = not absences or len(mishaps.tails) == 0
    for e in range(len(slot)):
        page, origin = slot[e] // n, slot[e] % n
        age = step - born[page]
        for link in range(ground.link_starts[at[e]], ground.link_starts[at[e] + 1]):
            receiver = ground.links[link]
            there = page * seats + _place(ground, origin, receiver)
            # first what is cheap: to draw mishaps takes longest
            if read[there] or (early and _is_behind(expected, there, age, age, absences)):
                continue
            if lost(mishaps, origin, born[page], at[e], receiver):
                continue
            wait = delayed(mishaps, origin, born[page], at[e], receiver)
            if (wait > 0 or not early) and _is_behind(expected, there, age + wait, age, absences):
                continue
            if age + wait <= expected[0, there]:
                expected[0, there] = age + wait
                expected[1, there] = age
            sent[0, count] = e
            sent[1, count] = receiver
            sent[2, count] = there
            sent[3, count] = wait
            count += 1
    return sent[:, :count]


@jit_part
def _is_behind(expected: Array, there: int, arriving: int, age: int, absences: bool) -> bool:
    """Whether a copy of a message of some `age` need not be read, since another one is on its way there."""
    first = expected[0, there]
    return (arriving == first and expected[1, there] == age) or (arriving > first and not absences)


@jit
def _first_copies(order: IntArray, seat: IntArray, at: IntArray, there: BoolArray, read: BoolArray) -> IntArray:
    """Those copies, visited in `order`, that are read: the receiver is there and has not read the message before."""
    new = np.empty(len(order), np.int64)
    count = 0
    for e in order:
        if there[at[e]] and not read[seat[e]]:
            read[seat[e]] = True
            new[count] = e
            count += 1
    return new[:count]
