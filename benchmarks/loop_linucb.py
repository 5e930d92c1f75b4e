"""LinUCB as a typical research script has it: one object per agent, one matrix inverse per step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LoopLinUCB:
    """One agent: ridge regression of the rewards on the arms in R^d, optimism of width `alpha`."""

    def __init__(self, d: int, alpha: float = 1.0, ridge: float = 1.0) -> None:
        self.alpha = alpha
        self.A = ridge * np.eye(d)
        self.b = np.zeros(d)

    def choose(self, arms: Floats) -> int:
        """Index of the arm, of `arms` (K, d), with the greatest upper confidence bound."""
        inverse = np.linalg.inv(self.A)
        theta = inverse @ self.b
        spread = np.einsum("kd,de,ke->k", arms, inverse, arms)
        return int(np.argmax(arms @ theta + self.alpha * np.sqrt(spread)))

    def learn(self, x: Floats, y: float) -> None:
        """Take in the reward `y` of the arm `x` (d,)."""
        self.A += np.outer(x, x)
        self.b += y * x


def step(agents: list[LoopLinUCB], arms: Floats, rewards: Floats) -> list[int]:
    """One decision of every agent: arms (n, K, d), rewards (n, K); returns the picks."""
    picks = []
    for agent, offered, paid in zip(agents, arms, rewards, strict=True):
        pick = agent.choose(offered)
        agent.learn(offered[pick], paid[pick])
        picks.append(pick)
    return picks
