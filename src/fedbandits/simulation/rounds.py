"""Turns played by compiled functions, one after the other, until somebody has to be heard; see `contract.compiled`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.compiled import BELOW, Block, calls, choose, learn, show
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import room_for


@jit
def play(
    agents: Any, block: Block, start: int, end: int, rewards: FloatArray, regrets: FloatArray, by_agent: FloatArray
) -> tuple[int, int]:
    """Play rows `start` to `end` of `block`, writing into the same rows of `rewards` and `regrets` (B, w) and adding
    regrets up in `by_agent` (n,).

    Returns the row after the last one that was played, which is one after which somebody may be calling or has to be
    tended to, or before one whose first decision an agent has to take itself, unless it is `end`; and the agent that
    could not decide or learn, what it saw or earned being not finite, or -1.
    """
    agents, block = borrowed(agents), borrowed(block)
    rewards, regrets, by_agent = borrowed(rewards), borrowed(regrets), borrowed(by_agent)
    _, d, arms = block.arms.shape
    awake = block.who.shape[1]
    each_arms = 1 if block.arms.shape[0] > 1 else 0
    each_means = 1 if block.means.shape[0] > 1 else 0
    room = np.zeros(room_for(d, arms))
    for s in range(start, end):
        due = False
        for a in range(awake):
            i = block.who[s, a]
            row = s * awake + a
            show(block.source, block, s, a, i)
            pick = choose(agents, i, block.arms, each_arms * row, room)
            if pick < 0:
                return s, i if s == start or a > 0 else -1
            mean = block.means[each_means * row, pick]
            shock = block.shocks[s, a]
            reward = (1.0 if shock < mean else 0.0) if block.law == BELOW else mean + shock
            if not abs(reward) < np.inf:
                return s, i
            rewards[s, a] = reward
            regrets[s, a] = block.best[s, a] - mean
            by_agent[i] += regrets[s, a]
            due |= learn(agents, i, block.arms, each_arms * row, pick, reward, room)
            due |= calls(agents, i)
        if due:
            return s + 1, -1
    return end, -1
