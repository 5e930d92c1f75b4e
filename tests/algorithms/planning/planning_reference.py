"""FedLSVI as the text has it: one agent after the other, raw transitions in lists, linear solves by numpy.

Nothing of the library is used but the numbers that agents are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Transition = tuple[np.ndarray, float, np.ndarray | None]
"""phi, r, and the features of all actions in the next state (None at the end)."""


@dataclass
class Regression:
    """The regressions of all stages over given transitions, solved backwards (eqs 9.2 to 9.6)."""

    lam: float
    beta: float
    length: int
    w: list[np.ndarray] = field(default_factory=list)
    gram: list[np.ndarray] = field(default_factory=list)

    def solve(self, data: list[list[Transition]], dim: int) -> Regression:
        self.w = [np.zeros(dim) for _ in range(self.length)]
        self.gram = [self.lam * np.eye(dim) for _ in range(self.length)]
        for h in reversed(range(self.length)):
            u = np.zeros(dim)
            for phi, r, after in data[h]:
                self.gram[h] = self.gram[h] + np.outer(phi, phi)
                y = r
                if after is not None and h + 1 < self.length:
                    y += self.value(h + 1, after)
                u += y * phi
            self.w[h] = np.linalg.solve(self.gram[h], u)
        return self

    def index(self, h: int, arms: np.ndarray) -> np.ndarray:
        norms = np.sqrt(np.einsum("kd,dk->k", arms, np.linalg.solve(self.gram[h], arms.T)))
        return arms @ self.w[h] + self.beta * norms

    def value(self, h: int, arms: np.ndarray) -> float:
        return min(float(self.index(h, arms).max()), float(self.length - h))


class Agent:
    """What one agent does in its episodes."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.trail: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.fresh: list[list[Transition]] = [[] for _ in range(length)]
        self.since = 0

    @property
    def stage(self) -> int:
        return len(self.trail)

    def step(self, arms: np.ndarray, pick: int, reward: float) -> bool:
        """Returns whether an episode has just ended."""
        if not arms.any():
            return self.close() if self.trail else False
        self.trail.append((arms, arms[pick], reward))
        return self.close() if len(self.trail) == self.length else False

    def close(self) -> bool:
        for h, (_, phi, r) in enumerate(self.trail):
            after = self.trail[h + 1][0] if h + 1 < len(self.trail) else None
            self.fresh[h].append((phi, r, after))
        self.trail = []
        self.since += 1
        return True


class Federation:
    """Agents in step, and whatever rule makes them synchronise. `rule`: "dense", "rare" or "never"."""

    def __init__(self, n: int, dim: int, length: int, lam: float, beta: float, rule: str, threshold: float) -> None:
        self.agents = [Agent(length) for _ in range(n)]
        self.shared: list[list[Transition]] = [[] for _ in range(length)]
        self.dim, self.length, self.lam, self.beta = dim, length, lam, beta
        self.rule, self.threshold = rule, threshold
        self.plans = [self._solved(agent) for agent in self.agents]
        self.syncs = 0

    def _solved(self, agent: Agent) -> Regression:
        own = self.rule != "rare"
        data = [self.shared[h] + (agent.fresh[h] if own else []) for h in range(self.length)]
        return Regression(self.lam, self.beta, self.length).solve(data, self.dim)

    def index(self, i: int, arms: np.ndarray) -> np.ndarray:
        return self.plans[i].index(self.agents[i].stage, arms)

    def step(self, arms: np.ndarray, picks: np.ndarray, rewards: np.ndarray) -> bool:
        """Everybody takes a step; returns whether they synchronise after it."""
        ended = [agent.step(arms[i], picks[i], rewards[i]) for i, agent in enumerate(self.agents)]
        if not any(ended):
            return False
        sync = any(self._fires(agent) for agent, over in zip(self.agents, ended, strict=True) if over)
        if sync:
            self.syncs += 1
            for agent in self.agents:
                for h in range(self.length):
                    self.shared[h] += agent.fresh[h]
                agent.fresh = [[] for _ in range(self.length)]
                agent.since = 0
        if sync or self.rule != "rare":
            self.plans = [self._solved(agent) for agent in self.agents]
        return sync

    def _fires(self, agent: Agent) -> bool:
        for h in range(self.length):
            base = self.lam * np.eye(self.dim) + sum((np.outer(p, p) for p, _, _ in self.shared[h]), np.zeros(()))
            own = sum((np.outer(p, p) for p, _, _ in agent.fresh[h]), np.zeros((self.dim, self.dim)))
            growth = np.linalg.slogdet(base + own)[1] - np.linalg.slogdet(base)[1]
            if self.rule == "dense" and growth >= self.threshold / agent.since:
                return True
            if self.rule == "rare" and growth >= np.log(self.threshold):
                return True
        return False
