"""Turns played by compiled functions, one after the other, until somebody has to be heard; see `contract.compiled`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.booking import close
from fedbandits.contract.compiled import (
    BELOW,
    FAILED,
    PENDING,
    Block,
    attend,
    calls,
    choose,
    hear,
    learn,
    show,
)
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit
from fedbandits.linalg.kernels import room_for


@jit
def play(
    agents: Any,
    server: Any,
    block: Block,
    start: int,
    end: int,
    rewards: FloatArray,
    regrets: FloatArray,
    by_agent: FloatArray,
    books: Any,
) -> tuple[int, int, int]:
    """Play rows `start` to `end` of `block`, writing into the same rows of `rewards` and `regrets` (B, w) and adding
    regrets up in `by_agent` (n,); a `server` that is not None is heard after each of them, what is said being counted
    in `books`, which is None otherwise.

    Returns the row after the last one that was played; the agent that could not decide or learn, what it saw or earned
    being not finite, or -1; and how the last row ended: `HEARD`, `FAILED`, or `PENDING` where somebody may be calling,
    where agents have to be tended to, and, without a server here, at `end`.
    """
    agents, talk, block, books = borrowed(agents), borrowed(server), borrowed(block), borrowed(books)
    rewards, regrets, by_agent = borrowed(rewards), borrowed(regrets), borrowed(by_agent)
    _, d, arms = block.arms.shape
    awake = block.who.shape[1]
    each_arms = 1 if block.arms.shape[0] > 1 else 0
    each_means = 1 if block.means.shape[0] > 1 else 0
    room = np.zeros(room_for(d, arms))
    done, ended = start, PENDING
    while done < end:
        s = done
        due, worn = False, False
        for a in range(awake):
            i = block.who[s, a]
            row = s * awake + a
            if not attend(talk, i):
                return s, -1, FAILED
            show(block.source, block, s, a, i)
            pick = choose(agents, i, block.arms, each_arms * row, room)
            if pick < 0:
                return s, i, PENDING
            mean = block.means[each_means * row, pick]
            shock = block.shocks[s, a]
            reward = (1.0 if shock < mean else 0.0) if block.law == BELOW else mean + shock
            if not abs(reward) < np.inf:
                return s, i, PENDING
            rewards[s, a] = reward
            regrets[s, a] = block.best[s, a] - mean
            by_agent[i] += regrets[s, a]
            worn |= learn(agents, i, block.arms, each_arms * row, pick, reward, room)
            due |= calls(agents, i)
        done = s + 1
        if server is None:
            if due or worn:
                break
        else:
            # what is worn has to be mended before anybody speaks
            ended = PENDING if worn else hear(talk, agents, due, books)
            if ended == FAILED:
                return done, -1, FAILED
            close(books, block.first + s)
            if ended == PENDING:
                break
    for i in range(len(by_agent)):
        if not attend(talk, i):
            return done, -1, FAILED
    return done, -1, ended
