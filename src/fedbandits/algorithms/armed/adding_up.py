"""Rewards that everybody has heard of, arm by arm and letter by letter, each for all whom it reaches.

Where hundreds of letters reach every agent in every round, taking them in for one agent after the other takes most of
the time: an addition has to wait for the one before. So each reward is added to the sums of all whom it reaches
(`Post.reached`) before the next one is, and no addition waits for another; for every agent and arm these are the
same additions in the same order, hence the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import Known, lightest, put_sum, sum_at, take_in, weigh
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.post import Post
from fedbandits.linalg.jit import jit_inside
from fedbandits.linalg.simd import REGISTER, add, address, load, store, target, zero


class ByArm(NamedTuple):
    """The letters of one round in the order of arms, and within an arm as everybody takes them in, the newest first."""

    starts: IntArray
    """(K + 1,) those of arm k are from `starts[k]` to `starts[k + 1]`."""
    rows: IntArray
    """Whom they reach: rows of `Post.reached_from`."""
    rewards: FloatArray
    weights: FloatArray


@jit_inside
def weight_in(known: Known, letters: FloatArray, row: Index) -> float:
    """The weight of the reward in a letter; of those that were said before there was a post nobody has found it."""
    weight = letters[row, np.uint64(letters.shape[1] - 1)]
    return float(weigh(known, letters[row, np.uint64(1)]) if np.isnan(weight) else weight)


@jit_inside
def add_up(known: Known, arms: int, post: Post, newest: int) -> None:
    """All agents take in the rewards in all letters of `post`, which begin with the arm and the reward and end with its
    weight.
    """
    n = len(post.starts) - 1
    letters = _sorted(known, arms, post, newest)
    cells, more = np.zeros(REGISTER * n), np.array([0.0, 1.0, 0.0, 0.0])
    for k in range(arms):
        if letters.starts[k] < letters.starts[k + 1]:
            _add(known, k, post, letters, more, cells)


@jit_inside
def _sorted(known: Known, arms: int, post: Post, newest: int) -> ByArm:
    n, rows = len(post.starts) - 1, len(post.born)
    starts = np.zeros(arms + 1, dtype=np.int64)
    for r in range(rows):
        starts[int(post.said[r, 0]) + 1] += 1
    for k in range(arms):
        starts[k + 1] += starts[k]
    places = starts.copy()
    order, rewards, weights = np.empty(rows, dtype=np.int64), np.empty(rows), np.empty(rows)
    for age in range(rows // n):
        begin = newest - age * n
        begin = begin + rows if begin < 0 else begin
        for u in range(n):
            k, weight = int(post.said[begin + u, 0]), weight_in(known, post.said, begin + u)
            order[places[k]], rewards[places[k]], weights[places[k]] = age * n + u, post.said[begin + u, 1], weight
            places[k] += 1
    return ByArm(starts, order, rewards, weights)


@jit_inside
def _add(known: Known, k: int, post: Post, letters: ByArm, more: FloatArray, cells: FloatArray) -> None:
    """The letters of arm k. Sum and count of an agent share one register in `cells`, so that both are added to at once:
    `more` is (reward, 1, 0, 0). What is too heavy for somebody is taken in one by one by all whom it reaches, with what
    they have in `cells` by then.
    """
    n, light = len(post.starts) - 1, np.inf
    for i in range(n):
        cells[REGISTER * i], cells[REGISTER * i + 1] = sum_at(known, i, k), 0.0
        light = min(light, lightest(known, i, k))
    start = target(cells, 0)
    for e in range(letters.starts[k], letters.starts[k + 1]):
        more[0], row = letters.rewards[e], letters.rows[e]
        begin, end = post.reached_from[row], post.reached_from[row + 1]
        if letters.weights[e] > light:
            for r in range(begin, end):
                _take_in(known, post.reached[np.uint64(r)], k, more[0], letters.weights[e], cells)
            continue
        lanes = load(zero(1), address(more, 0), 0)
        for r in range(begin, end):
            place = REGISTER * np.int64(post.reached[np.uint64(r)])
            store(start, place, add(load(lanes, start, place), lanes))
    for i in range(n):
        put_sum(known, i, k, cells[REGISTER * i], int(cells[REGISTER * i + 1]))


@jit_inside
def _take_in(known: Known, i: int, k: int, reward: float, weight: float, cells: FloatArray) -> None:
    cell = REGISTER * np.uint64(i)
    put_sum(known, i, k, cells[cell], int(cells[cell + np.uint64(1)]))
    take_in(known, np.uint64(i), np.uint64(k), reward, weight)
    cells[cell], cells[cell + np.uint64(1)] = sum_at(known, i, k), 0.0
