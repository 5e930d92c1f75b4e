"""The relay: what peers say travels hop by hop, lives for a number of hops, and is counted on every link.

Every kind of message travels by itself, in a way of its own. Which way is a matter of cost alone: where nothing goes
wrong, the closed form delivers what flooding would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, IntArray, State, check_who
from fedbandits.contract.booking import Speech
from fedbandits.contract.facts import Place
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.population import Population
from fedbandits.contract.post import Post
from fedbandits.contract.state import load_whole
from fedbandits.contract.wire import Utterance, Wire, WireError
from fedbandits.graphs.network import Faults
from fedbandits.transport.closed_form import ClosedForm
from fedbandits.transport.corruption import Corruption, check_corruptible
from fedbandits.transport.flooding import Flooding
from fedbandits.transport.mishaps import mishaps_of


class Way(Protocol):
    """Carries messages of one kind between peers, and counts the links they cross."""

    def check(self, step: int, reachable: BoolArray | None) -> None:
        """Raise unless round `step` can be the next one; nothing changes."""

    def move(self, said: Message | None, step: int, reachable: BoolArray | None = None) -> Inbox | None:
        """Move what is `said`, senders ascending, and everything under way one hop; returns what arrives."""

    def state(self) -> State:
        """Everything that is under way, as named arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up what was under way; raises before anything has changed."""


class Relay:
    """Carries messages between peers: for every kind that they may say there is one of `ways`, in declared order."""

    def __init__(self, place: Place, ways: Mapping[str, Way], ledger: Ledger, wire: Wire) -> None:
        self._n = place.graph.number_of_nodes()
        self._silent = place.hops == 0
        self._ways = dict(ways)
        self._ledger = ledger
        self._wire = wire

    def round(self, peers: Population, learned: IntArray, step: int, reachable: BoolArray | None = None) -> None:
        """Let peers speak, `learned` being those who have just learned something, move everything one hop, and deliver.

        `reachable` (n,): who can send and receive in this round; None: everybody. Rounds are called one after another.
        On a network on which messages live for no hop at all nobody is asked to speak.
        """
        if self._silent:
            return
        for way in self._ways.values():
            way.check(step, reachable)
        said = self._sorted(peers.say(learned))
        if said:
            self._ledger.synchronised()
        inboxes = [way.move(said.get(kind), step, reachable) for kind, way in self._ways.items()]
        for inbox in inboxes:
            if inbox is not None:
                peers.hear(inbox)

    @property
    def is_silent(self) -> bool:
        """Whether messages live for no hop at all."""
        return self._silent

    def plays(self, peers: Population) -> bool:
        """Whether compiled loops can carry what `peers` say, or need not: nothing goes wrong with it, all of it is of
        one kind, and peers say how they tell and heed.
        """
        way = self._only_way()
        return self._silent or (way is not None and peers.corresponding(way.letters) > 0)

    @property
    def speech(self) -> Speech:
        """What peers say to each other, for `contract.booking`."""
        return tuple((kind, "peer") for kind in self._ways)

    def post(self, peers: Population, step: int) -> Post | None:
        """What is under way before round `step`, for compiled loops; None where peers have to be asked what they say,
        or not everybody has spoken in the rounds before.
        """
        way = self._only_way()
        size = 0 if way is None else peers.corresponding(way.letters)
        return None if way is None or size == 0 else way.post(step, size)

    def take_up(self, post: Post, since: int) -> None:
        """Rounds from `since` on were left to compiled loops, which have made this of the `post`."""
        way = self._only_way()
        assert way is not None
        way.take_up(post, since)

    def state(self) -> State:
        """Everything that is under way, as named arrays."""
        return {
            prefix + name: array
            for prefix, way in zip(self._prefixes(), self._ways.values(), strict=True)
            for name, array in way.state().items()
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up what was under way; raises before anything has changed."""
        load_whole(self._load, state, before=self.state())

    def _load(self, state: Mapping[str, Array]) -> None:
        prefixes = self._prefixes()
        if unknown := sorted(name for name in state if not name.startswith(tuple(prefixes))):
            raise ValueError(f"the snapshot holds unknown {', '.join(unknown)}")
        for prefix, way in zip(prefixes, self._ways.values(), strict=True):
            way.load({name.removeprefix(prefix): held for name, held in state.items() if name.startswith(prefix)})

    def _only_way(self) -> ClosedForm | None:
        """Of everything that is said; None where there are others, or where things may go wrong."""
        ways = list(self._ways.values())
        return ways[0] if len(ways) == 1 and isinstance(ways[0], ClosedForm) else None

    def _prefixes(self) -> list[str]:
        """What the names of each way's arrays begin with: nothing where there is one way alone."""
        return [""] if len(self._ways) == 1 else [f"way{place}." for place in range(len(self._ways))]

    def _sorted(self, messages: Sequence[Message]) -> dict[str, Message]:
        """What was said, by kind, checked, in the order of the senders, and copied: it outlives the round."""
        said: dict[str, Message] = {}
        for message in messages:
            self._wire.check(message, "peer")
            check_who(message.who, self._n)
            if message.kind in said:
                raise WireError(f"peers say {message.kind!r} twice in a round; all senders belong in one message")
            if message.kind not in self._ways:
                raise WireError(f"message {message.kind!r} (peer) was never declared")
            ordered = message.of(np.argsort(message.who))
            said[message.kind] = replace(ordered, who=ordered.who.astype(np.int64))
        return {kind: message for kind, message in said.items() if len(message.who)}


def relay_for(
    place: Place, faults: Faults, absences: bool, arms: int, ledger: Ledger, wire: Wire, seed: np.random.SeedSequence
) -> Relay:
    """The relay at `place` for all that `wire` declares: `faults` say what may go wrong, and `seed` what does.

    `absences`: whether agents may be out of reach. There are `arms` arms.
    """
    spoken = [utterance for utterance in wire.utterances or () if utterance.direction == "peer"]
    check_corruptible(faults, spoken)

    def way(order: int, utterance: Utterance) -> Way:
        if not (faults.any or absences):
            return ClosedForm(place, ledger, wire)
        mishaps = mishaps_of(faults, seed, order)
        corruption = Corruption(faults, mishaps, place.graph.number_of_nodes(), arms, utterance)
        return Flooding(place, mishaps, corruption, absences, ledger, wire)

    ways = {utterance.kind: way(order, utterance) for order, utterance in enumerate(spoken)}
    return Relay(place, ways, ledger, wire)
