"""Flooding as it happens, one letter on one link at a time: what the relay's closed form is held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import networkx as nx

T = TypeVar("T")


@dataclass(frozen=True)
class Letter(Generic[T]):
    """What `origin` said in round `born`, with `life` hops left."""

    origin: int
    born: int
    life: int
    content: T


class Flood(Generic[T]):
    """Every agent that receives a letter for the first time reads it and, while life is left, forwards it once.

    A letter said in round s crosses its first links in round s, is read there at the end of that round and forwarded in
    the next one. Forwarding goes to all neighbours, also to the one it came from.
    """

    def __init__(self, network: nx.Graph, ttl: int) -> None:
        self._neighbours = {v: [u for u in network.neighbors(v) if u != v] for v in network}
        self._ttl = ttl
        self._desks: dict[int, list[Letter[T]]] = {v: [] for v in network}
        self._seen: dict[int, set[tuple[int, int]]] = {v: set() for v in network}

    def round(self, step: int, said: dict[int, T]) -> tuple[list[tuple[int, Letter[T]]], list[Letter[T]]]:
        """One round: (receiver, letter) for all that is read, and the letter of every link crossed."""
        for origin, content in said.items():
            self._desks[origin].append(Letter(origin, step, self._ttl, content))
            self._seen[origin].add((origin, step))
        desks, self._desks = self._desks, {v: [] for v in self._desks}
        read, crossed = [], []
        for holder, letters in desks.items():
            for letter in letters:
                if letter.life == 0:
                    continue
                for neighbour in self._neighbours[holder]:
                    crossed.append(letter)
                    if (letter.origin, letter.born) in self._seen[neighbour]:
                        continue
                    self._seen[neighbour].add((letter.origin, letter.born))
                    older = Letter(letter.origin, letter.born, letter.life - 1, letter.content)
                    self._desks[neighbour].append(older)
                    read.append((neighbour, older))
        return read, crossed
