"""FedLinUCB-Network written down from the text, agent by agent and letter by letter, with numpy and lists alone.

Nothing here is shared with the package but the random streams that noise and random choices are drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import networkx as nx
import numpy as np

R = 0.5
"""The noise of a click; arms and the parameter have norms of at most 1, rewards lie in [0, 1]."""


@dataclass
class Setting:
    graph: nx.Graph
    ttl: int
    cliques: list[set[int]]
    horizon: int
    dim: int
    turns: list[int] | None
    """Uses of a phase after which it is synchronised; None: by the log-determinant."""
    threshold: float = math.inf
    own: str = "released"
    noise: str | None = None
    """The mechanism, if any, whose independent noise has the deviation `sigma`."""
    sigma: float = 0.0
    releases: int = 0
    printed: Callable[[int], float] | None = None
    """Size of a clique -> Lambda of one of its agents, if the thesis' constants are used."""
    ridge: float = 1.0
    width: float = 0.3

    @property
    def phases(self) -> int:
        return max(1, self.ttl)


@dataclass
class Phase:
    """What one agent knows of one phase."""

    clean: list[np.ndarray]
    """[x; y][x; y]^T summed up between two releases, one entry for each."""
    z: list[np.ndarray] = field(default_factory=list)
    uses: int = 0
    known: int = 0
    owing: bool = False
    table: dict[int, tuple[int, np.ndarray]] = field(default_factory=dict)
    """By member, itself included: the round and content of the last release."""


class Member:
    def __init__(self, name: int, setting: Setting, streams) -> None:
        self.name, self.setting, self.streams = name, setting, streams
        (self.clique,) = (clique for clique in setting.cliques if name in clique)
        self.phases = [Phase([np.zeros((setting.dim + 1, setting.dim + 1))]) for _ in range(setting.phases)]

    # acting

    def knows(self, g: int) -> bool:
        return self.setting.own == "recent" or bool(self.phases[g].table)

    def believed(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """S and s of the phase, ridge included."""
        setting, held = self.setting, self.phases[g].table
        d, size = setting.dim, len(self.clique)
        total = sum((release for _, release in held.values()), np.zeros((d + 1, d + 1)))
        gram, moment = total[:d, :d], total[:d, d]
        if setting.printed is not None:
            gram = gram + 2 * size * setting.printed(size) * np.eye(d)
        elif setting.noise is not None and held:
            rows = dense(setting.noise, setting.releases)
            deviation = setting.sigma * math.sqrt(size * (rows**2).sum(axis=1).max())
            q = 3 * (deviation / R) ** 2
            shift = deviation * 2 * (math.sqrt(d) + math.sqrt(math.log(1 / 0.05)))
            values, vectors = np.linalg.eigh(gram + shift * np.eye(d))
            V = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
            share = V @ np.linalg.inv(V + q * np.eye(d))
            gram, moment = share @ V, share @ moment
        return gram + setting.ridge * np.eye(d), moment

    def indices(self, g: int, arms: np.ndarray) -> np.ndarray:
        V, b = self.believed(g)
        if self.setting.own == "recent":
            fresh, d = self.phases[g].clean[-1], self.setting.dim
            V, b = V + fresh[:d, :d], b + fresh[:d, d]
        theta = np.linalg.solve(V, b)
        return np.array([x @ theta + self.setting.width * math.sqrt(x @ np.linalg.solve(V, x)) for x in arms])

    def learn(self, g: int, x: np.ndarray, y: float) -> None:
        both = np.append(x, y)
        self.phases[g].clean[-1] = self.phases[g].clean[-1] + np.outer(both, both)
        self.phases[g].uses += 1

    # talking

    def is_due(self, g: int) -> bool:
        setting, phase = self.setting, self.phases[g]
        if setting.turns is not None:
            return phase.known < len(setting.turns) and phase.uses >= setting.turns[phase.known]
        S, _ = self.believed(g)
        d, since = setting.dim, phase.uses - sum(self.released_uses[g])
        slack = 0.0 if setting.printed is None else 2 * len(self.clique) * setting.printed(len(self.clique))
        lifted = S + phase.clean[-1][:d, :d] + slack * np.eye(d)
        grown = np.linalg.slogdet(lifted)[1] - np.linalg.slogdet(S)[1]
        return bool(grown >= setting.threshold / (since * (1 + 1)))

    released_uses: list[list[int]]

    def release(self, g: int, now: int) -> np.ndarray:
        """All so far, and the noise of the mechanism."""
        setting, phase, d = self.setting, self.phases[g], self.setting.dim
        total = sum(phase.clean)
        if setting.noise is not None:
            numbers = self.streams.normal(np.array([self.name]), d * (d + 1) // 2 + d)[0]
            phase.z.append(symmetric(setting.sigma * numbers, d))
            row = dense(setting.noise, setting.releases)[len(phase.z) - 1]
            total = total + sum(weight * z for weight, z in zip(row, phase.z, strict=False))
        phase.clean.append(np.zeros((d + 1, d + 1)))
        self.released_uses[g].append(phase.uses - sum(self.released_uses[g]))
        phase.table[self.name] = (now, total)
        return total


def symmetric(numbers: np.ndarray, d: int) -> np.ndarray:
    """The lower triangle row by row, then the last column; what is on the diagonal has sqrt(2) times as much."""
    found, at = np.zeros((d + 1, d + 1)), 0
    for i in range(d):
        for j in range(i + 1):
            found[i, j] = found[j, i] = numbers[at] * (math.sqrt(2) if i == j else 1)
            at += 1
    found[:d, d] = found[d, :d] = numbers[at:]
    return found


def dense(mechanism: str, m: int) -> np.ndarray:
    """Row k: with which weights the z that were drawn so far make up the noise of release k."""
    found = np.zeros((m, m))
    for k in range(m):
        if mechanism == "toeplitz":
            found[k, : k + 1] = [math.comb(2 * (k - j), k - j) / 4 ** (k - j) for j in range(k + 1)]
        elif mechanism == "fresh":
            found[k, : k + 1] = 1
        else:
            levels: dict[int, int] = {}  # which z each level of the tree holds
            for count in range(1, k + 2):
                low = (count & -count).bit_length() - 1
                levels = {level: z for level, z in levels.items() if level > low} | {low: count - 1}
            found[k, list(levels.values())] = 1
    return found


class Federation:
    """Everybody, and all letters that are under way."""

    def __init__(self, setting: Setting, streams) -> None:
        self.setting, self.streams = setting, streams
        self.members = [Member(i, setting, streams) for i in setting.graph]
        for member in self.members:
            member.released_uses = [[] for _ in range(setting.phases)]
        self.distance = dict(nx.all_pairs_shortest_path_length(setting.graph))
        self.letters: list[tuple[int, int, int, tuple]] = []
        """The round at whose end it arrives, from whom, to whom, and what."""
        self.said: list[tuple[int, int, str, int]] = []

    def broadcast(self, now: int, sender: int, what: tuple) -> None:
        self.said.append((now, sender, what[0], what[1]))
        for to, hops in self.distance[sender].items():
            if 1 <= hops <= self.setting.ttl:
                self.letters.append((now + hops - 1, sender, to, what))

    def indices(self, now: int, arms: np.ndarray) -> list[np.ndarray | None]:
        """Of every member; None where it chooses at random."""
        g = now % self.setting.phases
        return [member.indices(g, arms[member.name]) if member.knows(g) else None for member in self.members]

    def at_random(self, name: int, arms: int) -> int:
        return min(int(self.streams.uniform(np.array([name]))[0] * arms), arms - 1)

    def learn(self, now: int, x: np.ndarray, y: np.ndarray) -> None:
        """Everybody observes something; those who owe their sums tell them, those who are due ask; letters arrive."""
        g = now % self.setting.phases
        for member in self.members:
            phase = member.phases[g]
            member.learn(g, x[member.name], y[member.name])
            if phase.owing:
                phase.owing = False
                self.broadcast(now, member.name, ("statistics", g, now, member.release(g, now)))
            elif member.is_due(g):
                phase.known += 1
                phase.owing = True
                self.broadcast(now, member.name, ("sync", g, phase.known))
        arriving = [letter for letter in self.letters if letter[0] == now]
        self.letters = [letter for letter in self.letters if letter[0] != now]
        for _, sender, to, what in arriving:
            member = self.members[to]
            phase = member.phases[what[1]]
            if sender not in member.clique:
                continue
            if what[0] == "sync" and what[2] > phase.known:
                phase.known, phase.owing = what[2], True
            elif what[0] == "statistics":
                told, _ = phase.table.get(sender, (-1, None))
                if what[2] > told:
                    phase.table[sender] = (what[2], what[3])
