"""The relay in closed form: hop distances instead of single forwards, for networks on which nothing goes wrong.

Timing: what agent u says in round s reaches its neighbours at the end of round s, and an agent at distance h at the
end of round s + h - 1; it reaches exactly the agents at distance at most `ttl`, each once. Every agent that
holds a message with life left forwards it once to all its neighbours: a message said by u crosses
sum over {v : dist(u, v) < ttl} deg(v) links in all, dist counted in hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.contract.arrays import Array, BoolArray, IntArray, State, check_who
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.post import ABREAST, Abreast, Post
from fedbandits.contract.wire import Wire
from fedbandits.graphs.hops import Pairs, adjacency, pairs_by_distance
from fedbandits.linalg.jit import jit
from fedbandits.transport.letters import check_alike, in_order, joined, sealed, starts_of, taken, taken_all


class ClosedForm:
    """Time-to-live flooding of one kind of message, with duplicates removed.

    While the same agents speak in every round, the letters' addresses are the same in every round: they are kept, and a
    round costs no more than its messages, however many agents receive them. Otherwise it costs as much as its letters.
    """

    def __init__(self, place: Place, ledger: Ledger, wire: Wire) -> None:
        graph, ttl = place.graph, place.hops
        if ttl < 0:
            raise ValueError(f"ttl must not be negative, got {ttl}")
        self._ledger = ledger
        self._wire = wire
        self._n = graph.number_of_nodes()
        pairs = pairs_by_distance(graph, ttl)
        degree = np.asarray(adjacency(graph).sum(axis=1))
        self._reached = [_listed(one, self._n) for one in pairs[1:]]
        """Entry a: whom each agent's messages reach in the round that is a rounds after they were said."""
        self._links = [
            np.bincount(one.origin, weights=degree[one.to], minlength=self._n).astype(np.int64) for one in pairs[:ttl]
        ]
        """Entry a: (n,) how many links they cross in that round."""
        self._flight: list[tuple[int, Message]] = []
        """What is under way and the round it was said in, the newest first."""
        self._addresses: _Addresses | None = None
        self._routes: _Routes | None = None
        received = (np.bincount(reached.to, minlength=self._n) for reached in self._reached)
        self.letters: IntArray = sum(received, start=np.zeros(self._n, dtype=np.int64))
        """(n,) how many each agent gets in a round, once everybody has spoken in as many rounds as messages live."""

    def check(self, step: int, reachable: BoolArray | None) -> None:
        """Raise unless round `step` is the next one, and everybody is there."""
        if reachable is not None and not reachable.all():
            raise ValueError("agents are out of reach: the closed form needs everybody, use flooding")
        if self._flight and step <= self._flight[0][0]:
            raise ValueError(f"rounds must be called one after another, {step} is not the next one")

    def move(self, said: Message | None, step: int, reachable: BoolArray | None = None) -> Inbox | None:
        """Move what is said, and everything under way, one hop."""
        ttl = len(self._links)
        flight = [(born, old) for born, old in self._flight if step - born < ttl]
        if said is not None:
            if flight:
                check_alike(flight[0][1], said, self._wire)
            flight.insert(0, (step, said))
        self._flight = flight
        if not flight:
            return None
        moving = joined([message for _, message in flight], self._wire)
        links = np.concatenate([self._links[step - born][message.who] for born, message in flight])
        self._ledger.record(moving, "peer", self._wire, copies=links)
        addresses = self._addressed([(step - born, message.who) for born, message in flight])
        if len(addresses.to) == 0:
            return None
        born = np.repeat([born for born, _ in flight], [len(message.who) for _, message in flight])
        return Inbox(moving, born, addresses.to, addresses.row)

    def post(self, step: int, size: int) -> Post | None:
        """What is under way before round `step`, `size` numbers for each message, for compiled loops; None unless
        everybody has spoken in all rounds of which messages still live.
        """
        n, ttl = self._n, len(self._links)
        spoken = {born: message for born, message in self._flight if len(message.who) == n and not message.lengths}
        if not {*range(step - max(ttl - 1, 1), step)} <= spoken.keys():
            return None
        routes = self._from_everybody()
        post = Post(
            said=np.full((ttl * n, size), np.nan),
            born=np.zeros(ttl * n, dtype=np.int64),
            who=np.tile(np.arange(n), ttl),
            round=np.array([step]),
            starts=routes.starts,
            behind=routes.behind,
            reached_from=routes.reached_from,
            reached=routes.reached,
            abreast=routes.abreast,
            links=routes.links,
        )
        for born, message in spoken.items():
            rows = slice(born % ttl * n, born % ttl * n + n)
            post.born[rows] = born
            flat = np.concatenate([array.reshape(n, -1) for array in message.arrays.values()], axis=1)
            post.said[rows, : flat.shape[1]] = flat
        return post

    def take_up(self, post: Post, since: int) -> None:
        """What is under way after the rounds from `since` on, which were left to compiled loops."""
        n, ttl, after = self._n, len(self._links), int(post.round[0])
        form = self._flight[0][1]
        for born in range(max(since, after - ttl), after):
            rows = slice(born % ttl * n, born % ttl * n + n)
            arrays, at = {}, 0
            for name, like in form.arrays.items():
                width = like[0].size
                flat = post.said[rows, at : at + width]
                arrays[name] = flat.astype(like.dtype).reshape(like.shape)
                at += width
            self._flight.insert(0, (born, Message(form.kind, np.arange(n), arrays)))
        self._flight = [(born, message) for born, message in self._flight if born >= after - ttl]

    def state(self) -> State:
        """The messages under way."""
        kept: State = {"flying": np.array(len(self._flight))}
        for at, (born, message) in enumerate(self._flight):
            kept[f"{at}.born"] = np.array(born)
            kept[f"{at}.kind"] = np.frombuffer(message.kind.encode(), dtype=np.uint8).copy()
            kept[f"{at}.who"] = message.who.copy()
            kept |= {f"{at}.array.{name}": array.copy() for name, array in message.arrays.items()}
            kept |= {f"{at}.length.{name}": length.copy() for name, length in message.lengths.items()}
        return kept

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up the messages that were under way; raises before anything has changed."""
        left = {name: array.copy() for name, array in state.items()}
        flight: list[tuple[int, Message]] = []
        for at in range(int(taken(left, "flying"))):
            arrays, lengths = taken_all(left, f"{at}.array."), taken_all(left, f"{at}.length.")
            message = Message(taken(left, f"{at}.kind").tobytes().decode(), taken(left, f"{at}.who"), arrays, lengths)
            self._wire.check(message, "peer")
            check_who(message.who, self._n)
            if flight:
                check_alike(flight[0][1], message, self._wire)
            flight.append((int(taken(left, f"{at}.born")), message))
        if left:
            raise ValueError(f"the snapshot holds unknown {', '.join(sorted(left))}")
        self._flight = flight

    def _addressed(self, speakers: list[tuple[int, IntArray]]) -> _Addresses:
        """Where messages go that were said so many rounds ago by those agents."""
        held = self._addresses
        if held is None or not _same(held.speakers, speakers):
            held = self._addresses = self._written(speakers)
        return held

    def _from_everybody(self) -> _Routes:
        if self._routes is None:
            n = self._n
            to, row = self._addressed([(age, np.arange(n)) for age in range(len(self._links))])[1:]
            links = int(sum(links.sum() for links in self._links))
            reached = np.concatenate([one.to for one in self._reached])
            sizes = np.concatenate([np.diff(one.starts) for one in self._reached])
            starts = starts_of(to, n)
            self._routes = _Routes(
                starts=starts,
                behind=row % n - row // n * n,
                reached_from=np.concatenate([[0], np.cumsum(sizes)]),
                reached=reached.astype(np.int32),
                abreast=_abreast(to, row, starts, len(self._links) * n),
                links=links,
            )
        return self._routes

    def _written(self, speakers: list[tuple[int, IntArray]]) -> _Addresses:
        to, row = [], []
        first = 0
        for age, who in speakers:
            reached = self._reached[age]
            count = int((reached.starts[who + 1] - reached.starts[who]).sum())
            to.append(np.empty(count, dtype=np.int64))
            row.append(np.empty(count, dtype=np.int64))
            _list_letters(reached, who, first, to[-1], row[-1])
            first += len(who)
        everybody, rows = np.concatenate(to), np.concatenate(row)
        order = in_order(everybody, self._n)
        return _Addresses(speakers, sealed(everybody[order]), sealed(rows[order]))


class _Addresses(NamedTuple):
    """The letters' receivers and rows, for speakers of (age, who)."""

    speakers: list[tuple[int, IntArray]]
    to: IntArray
    row: IntArray


class _Routes(NamedTuple):
    """Where messages of everybody go, once they were said in as many rounds as they live; see `Post`."""

    starts: IntArray
    behind: IntArray
    reached_from: IntArray
    reached: NDArray[np.int32]
    abreast: Abreast
    links: int


class _Reached(NamedTuple):
    """The receivers of agent i are `to[starts[i]:starts[i + 1]]`."""

    starts: IntArray
    to: IntArray


def _listed(pairs: Pairs, n: int) -> _Reached:
    return _Reached(starts_of(pairs.origin, n), pairs.to.copy())


def _abreast(to: IntArray, row: IntArray, starts: IntArray, nothing: int) -> Abreast:
    """Letters `row` for `to`, in the order of receivers, as a `Post` has them side by side; `nothing` fills up."""
    letters = np.diff(starts)
    receivers = np.argsort(-letters, kind="stable")
    place = np.empty_like(receivers)
    place[receivers] = np.arange(len(receivers))
    lines = np.concatenate([[0], np.cumsum(letters[receivers[::ABREAST]])])
    rows = np.full(ABREAST * lines[-1], nothing, dtype=np.int32)
    group, column = np.divmod(place[to], ABREAST)
    rows[ABREAST * (lines[group] + np.arange(len(to)) - starts[to]) + column] = row
    return Abreast(receivers, lines, rows)


@jit
def _list_letters(reached: _Reached, who: IntArray, first: int, to: IntArray, row: IntArray) -> None:
    at = 0
    for i in range(len(who)):
        for e in range(reached.starts[who[i]], reached.starts[who[i] + 1]):
            to[at] = reached.to[e]
            row[at] = first + i
            at += 1


def _same(left: list[tuple[int, IntArray]], right: list[tuple[int, IntArray]]) -> bool:
    return len(left) == len(right) and all(
        age == other_age and np.array_equal(who, other)
        for (age, who), (other_age, other) in zip(left, right, strict=True)
    )
