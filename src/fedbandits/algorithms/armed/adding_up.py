"""Rewards that everybody has heard of, sender by sender for many receivers at once, instead of letter by letter.

Where hundreds of letters reach every agent in every round, reading them one by one takes most of the time. So the
rewards of one arm are gone through in the order of letters, and each is added, side by side, to the sums of all whom it
reaches (`Post.reach`): the same additions in the same order for everybody, hence the same bits.
"""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import Known, adds_up, put_sum, sum_at
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.post import ABREAST, Post
from fedbandits.linalg.jit import jit_inside
from fedbandits.linalg.simd import REGISTER, add_where, load, store, target, zero

_REGISTERS = ABREAST // REGISTER


@jit_inside
def add_up(known: Known, arms: int, post: Post, newest: int, counted: BoolArray) -> None:
    """Count the rewards in all letters of `post`, for those agents to whom they are no more than numbers to add up
    (`adds_up`): they are marked in `counted` (n,). Letters begin with the arm and the reward and end with its weight.
    """
    rows = len(post.born)
    heaviest, starts = np.zeros(arms), np.zeros(arms + 1, dtype=np.int64)
    _weigh(post.said, heaviest, starts)
    if not _any_add_up(known, heaviest, starts, counted):
        return
    order, rewards = np.empty(rows, dtype=np.int64), np.empty(rows)
    _by_arm(post, newest, starts, order, rewards)
    width = post.reach.shape[0] * ABREAST
    totals, samples = np.zeros(width), np.zeros(width)
    for k in range(arms):
        first, last = starts[k], starts[k + 1]
        if first == last:
            continue
        for i in range(len(counted)):
            totals[i] = sum_at(known, i, k)
        _side_by_side(post, order, rewards, first, last, totals, samples)
        for i in range(len(counted)):
            if counted[i]:
                put_sum(known, i, k, totals[i], int(samples[i]))


@jit_inside
def _weigh(said: FloatArray, heaviest: FloatArray, starts: IntArray) -> None:
    """The heaviest reward of each arm, and where its letters are to begin in the order of arms."""
    last = said.shape[1] - 1
    for r in range(len(said)):
        k, weight = int(said[r, 0]), said[r, last]
        heaviest[k] = np.inf if np.isnan(weight) else max(heaviest[k], weight)  # NaN: nobody has weighed it
        starts[k + 1] += 1
    for k in range(len(heaviest)):
        starts[k + 1] += starts[k]


@jit_inside
def _any_add_up(known: Known, heaviest: FloatArray, starts: IntArray, counted: BoolArray) -> bool:
    found = False
    for i in range(len(counted)):
        counted[i] = True
        for k in range(len(heaviest)):
            if starts[k] < starts[k + 1] and not adds_up(known, i, k, heaviest[k]):
                counted[i] = False
        found |= counted[i]
    return found


@jit_inside
def _by_arm(post: Post, newest: int, starts: IntArray, order: IntArray, rewards: FloatArray) -> None:
    """For the letters of each arm, the newest first: their rows in `Post.reach`, and their rewards."""
    n, rows = len(post.starts) - 1, len(post.born)
    places = starts.copy()
    for age in range(rows // n):
        begin = newest - age * n
        begin = begin + rows if begin < 0 else begin
        for u in range(n):
            k = int(post.said[begin + u, 0])
            order[places[k]], rewards[places[k]] = age * n + u, post.said[begin + u, 1]
            places[k] += 1


@jit_inside
def _side_by_side(
    post: Post, order: IntArray, rewards: FloatArray, first: int, last: int, totals: FloatArray, samples: FloatArray
) -> None:
    """Add letters `first` to `last` to `totals`, and count them: `samples`."""
    rows = post.reach.shape[1]
    summed, number = target(totals, 0), target(samples, 0)
    for b in range(post.reach.shape[0]):
        lanes, count = load(zero(_REGISTERS), summed, b * ABREAST), zero(_REGISTERS)
        for e in range(first, last):
            at = (b * rows + order[e]) * ABREAST
            lanes = add_where(lanes, rewards[e], post.reach, at)
            count = add_where(count, 1.0, post.reach, at)
        store(summed, b * ABREAST, lanes)
        store(number, b * ABREAST, count)
