"""Turns played by compiled functions, one after the other, until somebody has to be heard; see `contract.compiled`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.compiled import Block, calls, choose, learn, pay, show
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_exactly
from fedbandits.linalg.kernels import room_for


@jit_exactly
def blank(arms: FloatArray, row: int) -> bool:
    """Whether all of `arms[row]` (d, K) is zero: what an agent sees when its episode is over."""
    for j in range(arms.shape[1]):
        for k in range(arms.shape[2]):
            if arms[row, j, k] != 0.0:
                return False
    return True


@jit
def play(
    agents: Any,
    block: Block,
    start: int,
    end: int,
    rewards: FloatArray,
    regrets: FloatArray,
    over: BoolArray,
    by_agent: FloatArray,
) -> tuple[int, int]:
    """Play rows `start` to `end` of `block`, writing into the same rows of `rewards` and `regrets` (B, w) and adding
    regrets up in `by_agent` (n,); and whose arms were `blank` into those of `over` (B, w), unless that has no room.

    Returns the row after the last one that was played, which is one after which somebody may be calling or has to be
    tended to, unless it is `end`; and the agent that could not decide or learn, what it saw or earned being not finite,
    or -1.
    """
    agents, block = borrowed(agents), borrowed(block)
    rewards, regrets, over, by_agent = borrowed(rewards), borrowed(regrets), borrowed(over), borrowed(by_agent)
    _, d, arms = block.arms.shape
    awake = block.who.shape[1]
    noted = over.size > 0
    room = np.zeros(room_for(d, arms))
    for s in range(start, end):
        due = False
        for a in range(awake):
            i = block.who[s, a]
            row = show(block.source, block, s, a, i)
            if noted:
                over[s, a] = blank(block.arms, row)
            pick = choose(agents, i, block.arms, row, room)
            if pick < 0:
                return s, i
            reward, regret = pay(block.source, block, s, a, i, pick)
            if not abs(reward) < np.inf:
                return s, i
            rewards[s, a] = reward
            regrets[s, a] = regret
            by_agent[i] += regret
            due |= learn(agents, i, block.arms, row, pick, reward, room)
            due |= calls(agents, i)
        if due:
            return s + 1, -1
    return end, -1
