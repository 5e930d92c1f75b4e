"""The work of FN-UCB's released code, agent by agent in torch: one network that all train in turn, dense inverses.

Written from the description of what that code does in a turn: a backward pass for each arm, three dense inverses, and
30 full-batch steps of plain gradient descent on all own data, in single precision. Nothing is sent or metered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LoopFNUCB:
    """N agents with one network of `width` units, inputs in R^d and a mean of inverses."""

    def __init__(self, agents: int, d: int, width: int, ridge: float = 0.1, nu: float = 0.1, ramp: int = 700) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(torch.nn.Linear(d, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        for parameter in self.network.parameters():
            torch.nn.init.normal_(parameter)
        p = sum(parameter.numel() for parameter in self.network.parameters())
        self.ridge, self.nu, self.ramp = ridge, nu, ramp
        self.pool, self.moment = ridge * torch.eye(p), torch.zeros(p)
        self.own = [ridge * torch.eye(p) for _ in range(agents)]
        self.mean = torch.eye(p) / ridge
        self.data: list[list[tuple[Any, float]]] = [[] for _ in range(agents)]
        self.turn = 0

    def gradient(self, x: Any) -> tuple[Any, float]:
        """(p,) of f at one arm, and f."""
        self.network.zero_grad()
        found = self.network(x)
        found.backward()
        flat = self.torch.cat([parameter.grad.flatten() for parameter in self.network.parameters()])
        return flat.clone(), float(found.detach())

    def choose(self, arms: Floats) -> tuple[int, Any]:
        """The arm of the highest mixed index, of `arms` (K, d), and its features."""
        torch = self.torch
        alpha = min(max(self.turn - 3, 0) / self.ramp, 1.0)
        theta = torch.inverse(self.pool) @ self.moment
        inverse = torch.inverse(self.pool)
        best, chosen, features = -np.inf, 0, None
        for k, arm in enumerate(torch.tensor(arms, dtype=torch.float32)):
            phi, found = self.gradient(arm)
            width = self.nu * np.sqrt(self.ridge)
            pooled = float(phi @ theta + width * torch.sqrt(phi @ inverse @ phi))
            own = found + width * float(torch.sqrt(phi @ self.mean @ phi))
            index = (1 - alpha) * pooled + alpha * own
            if index > best:
                best, chosen, features = index, k, phi
        return chosen, features

    def train(self, agent: int, steps: int = 30, rate: float = 0.01) -> None:
        """Full-batch steps on all that `agent` has observed."""
        torch = self.torch
        x = torch.stack([point for point, _ in self.data[agent]])
        y = torch.tensor([reward for _, reward in self.data[agent]])
        optimiser = torch.optim.SGD(self.network.parameters(), lr=rate, weight_decay=self.ridge / len(y))
        for _ in range(steps):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(self.network(x)[:, 0], y).backward()
            optimiser.step()

    def step(self, world: Any, step: int) -> float:
        """One turn of everybody in `world`, and the round that follows; returns the regret."""
        torch = self.torch
        turn = world.turn(step)
        found = [self.choose(arms) for arms in turn.arms]
        outcome = world.pay(step, np.array([pick for pick, _ in found]))
        inverses = []
        for agent, (pick, phi) in enumerate(found):
            self.data[agent].append(
                (torch.tensor(turn.arms[agent, pick], dtype=torch.float32), float(outcome.rewards[agent]))
            )
            self.pool += torch.outer(phi, phi)
            self.moment += float(outcome.rewards[agent]) * phi
            self.own[agent] += torch.outer(phi, phi)
            inverses.append(torch.inverse(self.own[agent]))
        self.mean = sum(inverses) / len(inverses)
        for agent in range(len(self.data)):
            self.train(agent)
        self.turn += 1
        return float(outcome.regrets.sum())
