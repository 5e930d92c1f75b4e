"""Agents who tell each other what they got, without the interpreter: what FedUCB1 and its relatives have in common.

A letter begins with the arm that was pulled and the reward, and ends with what everybody who hears of that reward would
compute of it (`estimators.compiled.weigh`); in between is whatever else is said.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedbandits.algorithms.armed.adding_up import add_up, weight_in
from fedbandits.algorithms.armed.agents import Indexed, observe_indexed
from fedbandits.algorithms.armed.estimators.compiled import fits, lightest, take_in, weigh
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.compiled import has_room, learn, quiet, stands_for, tell
from fedbandits.contract.post import Post, letter
from fedbandits.linalg.jit import jit_inside

K = TypeVar("K")

TELLING = ("say", "hear", "_last", "_heed")
"""What compiled loops do in place of such agents, beside choosing and learning."""


_WORTH_SORTING = 4
"""Letters for each agent and arm from which on they are sorted by arm and added up for all whom they reach."""


class Told(NamedTuple):
    """What `FedUCB1Agents` are made up of, for compiled loops."""

    own: Indexed
    pulled: IntArray
    earned: FloatArray
    weights: FloatArray
    """(n,) of what was earned."""


@jit_inside
def tell_reward(agents: Told, i: int, letters: FloatArray, row: int) -> None:
    """Arm and reward of the last pull, and the weight of the latter."""
    letters[row, 0], letters[row, 1] = agents.pulled[i], agents.earned[i]
    letters[row, letters.shape[1] - 1] = agents.weights[i]


@jit_inside
def _heed_reward(agents: Told, i: Index, letters: FloatArray, row: Index) -> None:
    """Count the reward of another."""
    known = agents.own.known
    take_in(known, np.uint64(i), np.uint64(int(letters[row, 0])), letters[row, 1], weight_in(known, letters, row))


@jit_inside
def heed_rewards(agents: Told, post: Post, newest: int) -> None:
    """All agents count the rewards of all others that they have letters of."""
    n, known = len(post.starts) - 1, agents.own.known
    if lightest(known, 0, 0) >= 0 and len(post.reached) > _WORTH_SORTING * n * agents.own.places.arms:
        add_up(known, agents.own.places.arms, post, newest)
        return
    for i in range(n):
        for e in range(post.starts[i], post.starts[i + 1]):
            _heed_reward(agents, i, post.said, letter(post, newest, e))


@jit_inside
def _learn(agents: Any, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    told = agents.told
    weight = weigh(told.own.known, reward)
    observe_indexed(told.own, i, pick, reward, weight)
    told.pulled[i], told.earned[i], told.weights[i] = pick, reward, weight
    return not fits(told.own.known, i, pick, 1)


@jit_inside
def _tell(agents: Any, i: int, letters: FloatArray, row: int) -> None:
    tell_reward(agents.told, i, letters, row)


@jit_inside
def _has_room(agents: Any, i: int, letters: int) -> bool:
    own = agents.told.own
    for k in range(own.places.arms):  # noqa: SIM110  (compilers know no generators)
        if not fits(own.known, i, k, letters + 1):
            return False
    return True


def telling(kind: type[K]) -> type[K]:
    """The decorated type, with a field `told` (`Told`), is one of agents who tell each other what they got: how they
    learn, what they tell unless they say otherwise, and for how many letters they have room is said.
    """
    stands_for(learn, kind)(_learn)
    stands_for(tell, kind)(_tell)
    stands_for(has_room, kind)(_has_room)
    return quiet(kind)
