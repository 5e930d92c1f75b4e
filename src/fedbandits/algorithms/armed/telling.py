"""Agents who tell each other what they got, without the interpreter: what FedUCB1 and its relatives have in common.

A letter begins with the arm that was pulled and the reward, and ends with what everybody who hears of that reward would
compute of it (`estimators.compiled.weigh`); in between is whatever else is said.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import Indexed, observe_indexed
from fedbandits.algorithms.armed.estimators.compiled import fits, take_in, weigh
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.linalg.jit import jit_inside

TELLING = ("say", "hear", "_last", "_heed")
"""What compiled loops do in place of such agents, beside choosing and learning."""


class Told(NamedTuple):
    """What `FedUCB1Agents` are made up of, for compiled loops."""

    own: Indexed
    pulled: IntArray
    earned: FloatArray
    weights: FloatArray
    """(n,) of what was earned."""


@jit_inside
def observe_told(agents: Told, i: int, pick: int, reward: float) -> None:
    """Learn of the own pull."""
    weight = weigh(agents.own.known, reward)
    observe_indexed(agents.own, i, pick, reward, weight)
    agents.pulled[i], agents.earned[i], agents.weights[i] = pick, reward, weight


@jit_inside
def tell_reward(agents: Told, i: int, letters: FloatArray, row: int) -> None:
    """Arm and reward of the last pull, and the weight of the latter."""
    letters[row, 0], letters[row, 1] = agents.pulled[i], agents.earned[i]
    letters[row, letters.shape[1] - 1] = agents.weights[i]


@jit_inside
def heed_reward(agents: Told, i: Index, letters: FloatArray, row: Index) -> None:
    """Count the reward of another."""
    reward, weight = letters[row, 1], letters[row, np.uint64(letters.shape[1] - 1)]
    if np.isnan(weight):
        weight = weigh(agents.own.known, reward)
    take_in(agents.own.known, np.uint64(i), np.uint64(int(letters[row, 0])), reward, weight)


@jit_inside
def fit_all(agents: Told, i: int, letters: int) -> bool:
    """Whether there is room for so many letters, and another pull, whichever arm they are of."""
    for k in range(agents.own.places.arms):  # noqa: SIM110  (compilers know no generators)
        if not fits(agents.own.known, i, k, letters + 1):
            return False
    return True
