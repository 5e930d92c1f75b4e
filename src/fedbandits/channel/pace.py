"""What stages do between two conversations, as compiled loops take it: cut observations down, count turns, and let
agents call or not.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from fedbandits.channel.clipping import Limits, factor
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import State, learn
from fedbandits.linalg.jit import jit_inside, jit_nested


class Pace(NamedTuple):
    """The ends of stages at the side of n agents, for compiled loops."""

    observed: IntArray
    """(n,) turns so far: counted there."""
    limits: Limits
    """What observations are cut down to."""
    scheduled: bool
    """Whether turns say when agents call, and not what is inside of the stages."""
    turns: IntArray
    """Those after which agents call, where they are scheduled; in order."""
    place: IntArray
    """(n,) how many of them are done with."""
    made: IntArray
    """(n,) how often each agent has called, or may be counted as having done so,"""
    allowed: int
    """and how often it may, where its calls are not scheduled."""
    owing: BoolArray
    """(n,) who calls in any case."""
    room: FloatArray
    """(1, d, 1) for an arm that is cut down."""


def unhurried(n: int, dim: int) -> Pace:
    """Stages that leave observations and calls as they are."""
    nothing = np.zeros(n, dtype=np.int64)
    nobody, never = np.zeros(n, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    anything = Limits(-np.inf, np.inf, np.inf)
    return Pace(nothing, anything, False, never, nothing, nothing, sys.maxsize, nobody, np.empty((1, dim, 1)))


@jit_nested
def learn_through(
    pace: Pace, agents: State, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    """What `StagedAgents.learn` does for agent i of those inside."""
    pace.observed[i] += 1
    left = min(max(reward, pace.limits.low), pace.limits.high)
    share = factor(arms, row, pick, pace.limits.arms)
    if share == 1.0:
        return learn(agents, i, arms, row, pick, left, room)
    for j in range(arms.shape[1]):
        pace.room[0, j, 0] = arms[row, j, pick] * share
    return learn(agents, i, pace.room, 0, 0, left, room)


@jit_inside
def lets_call(pace: Pace, i: int, would: bool) -> bool:
    """Whether agent i may be calling, where those inside of the stages `would`."""
    if pace.owing[i]:
        return True
    if not pace.scheduled:
        return would and pace.made[i] < pace.allowed
    place = pace.place[i]
    return bool(place < len(pace.turns) and pace.observed[i] >= pace.turns[place])
