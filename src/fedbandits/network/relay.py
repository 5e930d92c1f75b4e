"""The relay: what peers say travels hop by hop, lives for a number of hops, and is counted on every link.

Timing: what agent u says in round s reaches its neighbours at the end of round s, and an agent at distance h at the
end of round s + h - 1; it reaches exactly the agents at distance at most `ttl`, each once. Every agent that
holds a message with life left forwards it once to all its neighbours: a message said by u crosses
sum over {v : dist(u, v) < ttl} deg(v) links in all, dist counted in hops.
"""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx
import numpy as np

from fedbandits.arrays import Array, BoolArray, IntArray, State
from fedbandits.ledger import Ledger
from fedbandits.network.hops import adjacency, pairs_by_distance
from fedbandits.network.contract import Faults
from fedbandits.protocol import Inbox, Message, Peers, Problem
from fedbandits.wire import Wire


class Relay:
    """Time-to-live flooding with duplicates removed, in closed form: hop distances instead of single forwards."""

    def __init__(self, network: nx.Graph[int], ttl: int, ledger: Ledger, wire: Wire) -> None:
        if ttl < 0:
            raise ValueError(f"ttl must not be negative, got {ttl}")
        self._ledger = ledger
        self._wire = wire
        self._n = network.number_of_nodes()
        self._pairs = pairs_by_distance(network, ttl)
        degree = np.asarray(adjacency(network).sum(axis=1))
        self._links = [
            np.bincount(pairs.origin, weights=degree[pairs.to], minlength=self._n).astype(np.int64)
            for pairs in self._pairs[:ttl]
        ]
        self._flight: list[tuple[int, Message]] = []

    def round(self, peers: Peers, who: IntArray, step: int, reachable: BoolArray | None = None) -> None:
        """Let the agents in `who` speak, move everything one hop, and deliver."""
        if not self._links:
            return
        said = peers.say(who)
        if said is not None and len(said.who):
            self._wire.check(said, "peer")
            self._ledger.synchronised()
            self._flight.insert(0, (step, said))
        self._flight = [(born, old) for born, old in self._flight if step - born < len(self._links)]
        if self._flight:
            for born, message in self._flight:
                links = int(self._links[step - born][message.who].sum())
                self._ledger.record(message, "peer", self._wire, copies=links)
            peers.hear(self._deliver(step))

    def _deliver(self, step: int) -> Inbox:
        to: list[IntArray] = []
        rows: list[IntArray] = []
        first = 0
        for born, message in self._flight:
            row_of = np.full(self._n, -1)
            row_of[message.who] = np.arange(first, first + len(message.who))
            pairs = self._pairs[step - born + 1]
            row = row_of[pairs.origin]
            to.append(pairs.to[row >= 0])
            rows.append(row[row >= 0])
            first += len(message.who)
        messages = [message for _, message in self._flight]
        said = Message(
            messages[0].kind,
            np.concatenate([message.who for message in messages]),
            {name: np.concatenate([message.arrays[name] for message in messages]) for name in messages[0].arrays},
        )
        rounds = np.repeat([born for born, _ in self._flight], [len(m.who) for m in messages])
        return Inbox(said, rounds, np.concatenate(to), np.concatenate(rows))

    def state(self) -> State:
        """The messages under way."""
        kept: State = {"flying": np.array(len(self._flight))}
        for at, (born, message) in enumerate(self._flight):
            kept[f"{at}.born"] = np.array(born)
            kept[f"{at}.kind"] = np.frombuffer(message.kind.encode(), dtype=np.uint8).copy()
            kept[f"{at}.who"] = message.who.copy()
            kept |= {f"{at}.array.{name}": array.copy() for name, array in message.arrays.items()}
        return kept

    def load(self, state: Mapping[str, Array]) -> None:
        """Take up the messages that were under way; raises before anything has changed."""
        left = {name: array.copy() for name, array in state.items()}
        flight = []
        for at in range(int(_pop(left, "flying"))):
            prefix = f"{at}.array."
            arrays = {name.removeprefix(prefix): left.pop(name) for name in state if name.startswith(prefix)}
            message = Message(_pop(left, f"{at}.kind").tobytes().decode(), _pop(left, f"{at}.who"), arrays)
            self._wire.check(message, "peer")
            flight.append((int(_pop(left, f"{at}.born")), message))
        if left:
            raise ValueError(f"the snapshot holds unknown {', '.join(sorted(left))}")
        self._flight = flight


def _pop(state: State, name: str) -> Array:
    if name not in state:
        raise ValueError(f"the snapshot lacks {name}")
    return state.pop(name)


def relay_for(
    problem: Problem, faults: Faults, absences: bool, ledger: Ledger, wire: Wire, seed: np.random.SeedSequence
) -> Relay:
    """The relay for the network of `problem` under `faults`; `absences`: whether agents may be out of reach."""
    assert problem.network is not None
    return Relay(problem.network, problem.ttl, ledger, wire)
