"""Flooding as it happens, one letter on one link at a time: what the relays are held against."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from fedbandits.contract.arrays import BoolArray
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.graphs.network import Faults
from fedbandits.transport.flooding import PATIENCE
from fedbandits.transport.mishaps import (
    OUTLIER,
    SOURCE,
    TRANSIT,
    Mishaps,
    byzantine,
    delayed,
    lost,
    mishaps_of,
    uniform,
)

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class FloodedCopy:
    """What `origin` said in round `born`, as bytes, with `life` hops left."""

    origin: int
    born: int
    life: int
    content: bytes


@dataclass(frozen=True)
class Passage:
    """A letter that will arrive from `sender` at `to` at the end of round `due`."""

    due: int
    sender: int
    to: int
    letter: FloodedCopy


class Flood:
    """Every agent that receives a letter for the first time reads it and, while life is left, forwards it once.

    A letter said in round s crosses its first links in round s, is read there at the end of that round (or as many
    rounds later as it is delayed) and forwarded in the next one. Forwarding goes to all neighbours, also to the one it
    came from. Who is away does neither: what arrives for it is lost, what lies on its desk waits. All letters are of
    one kind, of which `order` says where it stands among those that are declared.
    """

    def __init__(
        self,
        network: nx.Graph[int],
        ttl: int,
        faults: Faults | None = None,
        absences: bool = False,
        arms: int = 0,
        wire: Wire | None = None,
        seed: np.random.SeedSequence | None = None,
        order: int = 0,
    ) -> None:
        faults = faults or Faults()
        self._neighbours = {v: sorted(u for u in network.neighbors(v) if u != v) for v in sorted(network)}
        self._ttl = ttl
        self._mishaps = mishaps_of(faults, seed or np.random.SeedSequence(0), order)
        self._hands = Hands(faults, self._mishaps, len(network), arms, wire or Wire())
        slowest = (ttl - 1) * (1 + (faults.delay_max if faults.delay else 0))
        self._oldest = slowest + PATIENCE if absences else slowest
        self._desks: dict[int, list[FloodedCopy]] = {v: [] for v in self._neighbours}
        self._seen: dict[int, set[tuple[int, int]]] = {v: set() for v in self._neighbours}
        self._under_way: list[Passage] = []

    def round(
        self, step: int, said: dict[int, bytes], reachable: BoolArray | None = None
    ) -> tuple[list[tuple[int, FloodedCopy]], list[FloodedCopy]]:
        """One round: (receiver, letter) for all that is read, and the letter of every link crossed.

        Each receiver's letters come newest first, then by origin.
        """
        self._hands.look_around()
        for origin in sorted(said):
            content = self._hands.leaving(origin, step, said[origin])
            self._desks[origin].append(FloodedCopy(origin, step, self._ttl, content))
            self._seen[origin].add((origin, step))
        there = [v for v in self._neighbours if reachable is None or reachable[v]]
        crossed = [letter for holder in there for letter in self._send_all(step, holder)]
        read = [(to, letter) for to in there for letter in self._receive(step, to)]
        self._under_way = [passage for passage in self._under_way if passage.due > step]
        return read, crossed

    def _send_all(self, step: int, holder: int) -> list[FloodedCopy]:
        letters, self._desks[holder] = self._desks[holder], []
        crossed = []
        for letter in letters:
            if letter.life == 0 or step - letter.born > self._oldest:
                continue
            for to in self._neighbours[holder]:
                crossed.append(letter)
                journey = (letter.origin, letter.born, holder, to)
                if not lost(self._mishaps, *journey):
                    due = step + delayed(self._mishaps, *journey)
                    content = self._hands.passing(*journey, letter.content)
                    copy = replace(letter, life=letter.life - 1, content=content)
                    self._under_way.append(Passage(due, holder, to, copy))
        return crossed

    def _receive(self, step: int, to: int) -> list[FloodedCopy]:
        arriving = [passage for passage in self._under_way if passage.due == step and passage.to == to]
        read = []
        for passage in sorted(arriving, key=lambda one: (-one.letter.life, one.sender)):
            letter = passage.letter
            if (letter.origin, letter.born) not in self._seen[to]:
                self._seen[to].add((letter.origin, letter.born))
                self._desks[to].append(letter)
                read.append(letter)
        return sorted(read, key=lambda letter: (-letter.born, letter.origin))


class Hands:
    """Those through which letters pass: they replace raw numbers at the source and change them on the way."""

    def __init__(self, faults: Faults, mishaps: Mishaps, agents: int, arms: int, wire: Wire) -> None:
        self._faults = faults
        self._mishaps = mishaps
        self._wire = wire
        self._byzantine = byzantine(mishaps, faults.byzantine, agents)
        self._said_of: list[list[float]] = [[] for _ in range(arms)]
        self._best: int | None = None

    def look_around(self) -> None:
        """Find the arm that looks best from all that was said before this round."""
        means = {arm: sum(said) / len(said) for arm, said in enumerate(self._said_of) if said}
        self._best = max(means, key=lambda arm: (means[arm], -arm)) if means else None

    def leaving(self, origin: int, born: int, content: bytes) -> bytes:
        """What leaves the origin instead of `content`."""
        if not self._faults.corrupting:
            return content
        arm, numbers = self._opened(content)
        if arm is not None:
            self._said_of[arm] += numbers
        if not self._byzantine[origin]:
            return content
        if uniform(self._mishaps.keys[SOURCE], (origin, born)) >= self._faults.contamination:
            return content
        drawn = [uniform(self._mishaps.keys[OUTLIER], (origin, born, place)) for place in range(len(numbers))]
        return self._closed(content, [self._faults.outlier * self._standard(u) for u in drawn])

    def _standard(self, u: float) -> float:
        """The quantile `u` of the outliers' law, in its standard form."""
        if self._faults.outliers == "constant":
            return 1.0
        return float(ndtri(u) if self._faults.outliers == "gaussian" else np.tan(np.pi * (u - 0.5)))

    def passing(self, origin: int, born: int, sender: int, to: int, content: bytes) -> bytes:
        """What arrives at `to` instead of the `content` that left `sender`."""
        most = self._faults.tampering
        if most == 0:
            return content
        arm, numbers = self._opened(content)
        if self._faults.tamperer == "adaptive":
            added = [-most if arm is None or arm == self._best else most] * len(numbers)
        else:
            occasion = (origin, born, sender, to)
            added = [most * uniform(self._mishaps.keys[TRANSIT], (*occasion, i)) for i in range(len(numbers))]
        return self._closed(content, [number + more for number, more in zip(numbers, added, strict=True)])

    def _raw_fields(self, kind: str) -> list[str]:
        spoken = [one for one in self._wire.utterances or () if one.kind == kind and one.direction == "peer"]
        return [field.name for one in spoken for field in one.fields if field.raw]

    def _opened(self, content: bytes) -> tuple[int | None, list[float]]:
        kind, arrays = Wire.decode(content)
        arm = int(arrays["arm"]) if "arm" in arrays else None
        return arm, [float(number) for name in self._raw_fields(kind) for number in arrays[name].ravel()]

    def _closed(self, content: bytes, numbers: list[float]) -> bytes:
        kind, arrays = Wire.decode(content)
        left = list(numbers)
        for name in self._raw_fields(kind):
            size = arrays[name].size
            arrays[name] = np.array(left[:size], dtype=np.float64).reshape(arrays[name].shape)
            left = left[size:]
        message = Message(kind, np.zeros(1, dtype=np.int64), {name: array[None] for name, array in arrays.items()})
        return self._wire.encode(message, 0, "peer")
