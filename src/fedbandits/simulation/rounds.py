"""Turns played by compiled functions, one after the other, until somebody has to be heard; see `contract.compiled`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.booking import close
from fedbandits.contract.compiled import FAILED, PENDING, Block, attend, calls, choose, hear, learn, pay, show
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import room_for


@jit_part
def blank(arms: FloatArray, row: int) -> bool:
    """Whether all of `arms[row]` (d, K) is zero: what an agent sees when its episode is over."""
    for j in range(arms.shape[1]):
        for k in range(arms.shape[2]):
            if arms[row, j, k] != 0.0:
                return False
    return True


@jit
def play(
    agents: Any, server: Any, heard: bool, block: Block, start: int, end: int, earned: Any, books: Any
) -> tuple[int, int, int]:
    """Play rows `start` to `end` of `block`; a `server` is `heard` after each of them, what is said being counted in
    `books`. Both are None where no server is spoken for; it is not heard then.

    `earned` are rewards and regrets (B, w), into the same rows of which those of the decisions are written; (B, w)
    whose arms were `blank`, unless that has no room; and (n,) to which regrets are added agent by agent.

    Returns the row after the last one that was played, perhaps before one in which the first decision is left to the
    agents' own methods; the agent that could not decide or learn, what it saw or earned
    being not finite, or -1; and how the last row ended: `HEARD`, `FAILED`, or `PENDING` where somebody may be calling,
    where agents have to be tended to, and, if no server is heard, at `end`.
    """
    agents, talk, block, books = borrowed(agents), borrowed(server), borrowed(block), borrowed(books)
    rewards, regrets, over, by_agent = borrowed(earned)
    _, d, arms = block.arms.shape
    awake = block.who.shape[1]
    noted = over.size > 0
    room = np.zeros(room_for(d, arms))
    done, ended = start, PENDING
    while done < end:
        s = done
        due, worn, alone = False, False, False
        for a in range(awake):
            i = block.who[s, a]
            if not attend(talk, i):
                return s, -1, FAILED
            row = show(block.source, block, s, a, i)
            if noted:
                over[s, a] = blank(block.arms, row)
            pick = choose(agents, i, block.arms, row, room)
            if pick < 0:
                alone = a == 0 and s > start
                if alone:
                    break
                return s, i, PENDING
            reward, regret = pay(block.source, block, s, a, i, pick)
            if not abs(reward) < np.inf:
                return s, i, PENDING
            rewards[s, a] = reward
            regrets[s, a] = regret
            by_agent[i] += regret
            worn |= learn(agents, i, block.arms, row, pick, reward, room)
            due |= calls(agents, i)
        if alone:
            break
        done = s + 1
        if not heard:
            if due or worn:
                break
        elif server is not None:  # which the compiler knows
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
