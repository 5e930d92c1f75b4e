"""FedUCB1 as one would write it first: agents are objects, messages are tuples in lists, one at a time."""

from __future__ import annotations

import math
import random
from typing import Any

import networkx as nx


class Agent:
    """One agent: sums and counts by arm, and the messages on its desk."""

    def __init__(self, name: int, neighbours: list[int], arms: int, ttl: int) -> None:
        self.name = name
        self.neighbours = neighbours
        self.ttl = ttl
        self.sums = [0.0] * arms
        self.counts = [0] * arms
        self.desk: list[tuple[int, int, int, int, float]] = []
        self.seen: set[tuple[int, int]] = set()

    def choose(self, turn: int) -> int:
        """UCB1, each arm once first."""
        if turn <= len(self.sums):
            return turn - 1
        width = 2 * math.log(turn)
        scores = [s / c + math.sqrt(width / c) for s, c in zip(self.sums, self.counts, strict=True)]
        return scores.index(max(scores))

    def learn(self, turn: int, arm: int, reward: float) -> None:
        """Own sample, and the message about it."""
        self.count(arm, reward)
        self.seen.add((self.name, turn))
        self.desk.append((self.name, turn, self.ttl, arm, reward))

    def count(self, arm: int, reward: float) -> None:
        """One more sample."""
        self.sums[arm] += reward
        self.counts[arm] += 1


def run(network: nx.Graph[int], means: list[float], horizon: int, ttl: int, seed: int = 0) -> dict[str, Any]:
    """Bernoulli rewards; group regret, link crossings and the agents at the end."""
    rng = random.Random(seed)
    agents = [Agent(v, list(network.neighbors(v)), len(means), ttl) for v in sorted(network)]
    regret, crossed = 0.0, 0
    for turn in range(1, horizon + 1):
        for agent in agents:
            arm = agent.choose(turn)
            regret += max(means) - means[arm]
            agent.learn(turn, arm, float(rng.random() < means[arm]))
        desks = [agent.desk for agent in agents]
        for agent in agents:
            agent.desk = []
        for agent, desk in zip(agents, desks, strict=True):
            for origin, born, life, arm, reward in desk:
                if life == 0:
                    continue
                for name in agent.neighbours:
                    crossed += 1
                    other = agents[name]
                    if (origin, born) not in other.seen:
                        other.seen.add((origin, born))
                        other.count(arm, reward)
                        other.desk.append((origin, born, life - 1, arm, reward))
    return {"regret": regret, "crossed": crossed, "agents": agents}
