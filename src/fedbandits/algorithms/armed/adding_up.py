"""Rewards that everybody has heard of, arm by arm, and for several agents at a time.

Where hundreds of letters reach every agent in every round, taking them in for one agent after the other takes most of
the time: an addition has to wait for the one before. There are two ways to do several that need not wait:

- Of the arm that most letters are of, some agents take in one letter each at a time (`Post.abreast`), zeros in place of
  rewards of other arms: sums stay in registers. That takes a round without a heavy sample of that arm (`lightest`).
- Otherwise each reward is added to the sums of all whom it reaches (`Post.reached`) before the next one is.

For every agent and arm these are the same additions in the same order, but for zeros; hence the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import Known, lightest, put_sum, sum_at, take_in, weigh
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.post import ABREAST, Abreast, Post
from fedbandits.linalg.jit import jit_inside
from fedbandits.linalg.simd import REGISTER, add, address, gather, load, store, target, zero

_REGISTERS = ABREAST // REGISTER


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
    cells, more, counted = np.zeros(REGISTER * n), np.array([0.0, 1.0, 0.0, 0.0]), np.zeros(n, dtype=np.int64)
    main = _main(known, arms, post, letters)
    for k in range(arms):
        if k != main and letters.starts[k] < letters.starts[k + 1]:
            _add(known, k, post, letters, more, cells, counted)
    if main >= 0:
        _add_abreast(known, main, post, letters, counted)


@jit_inside
def _main(known: Known, arms: int, post: Post, letters: ByArm) -> int:
    """The arm that more than two thirds are told of, if none of its samples is heavy for anybody; -1 without one."""
    for k in range(arms):
        if 3 * (letters.starts[k + 1] - letters.starts[k]) > 2 * len(post.born):
            light = _light(known, k, len(post.starts) - 1)
            for e in range(letters.starts[k], letters.starts[k + 1]):
                if letters.weights[e] > light:
                    return -1
            return k
    return -1


@jit_inside
def _light(known: Known, k: int, n: int) -> float:
    """What is `lightest` for all agents."""
    light = np.inf
    for i in range(n):
        light = min(light, lightest(known, i, k))
    return light


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
def _add(
    known: Known, k: int, post: Post, letters: ByArm, more: FloatArray, cells: FloatArray, counted: IntArray
) -> None:
    """The letters of arm k, which are `counted`. Sum and count of an agent share one register in `cells`, so that both
    are added to at once: `more` is (reward, 1, 0, 0). What is too heavy for somebody is taken in one by one by all whom
    it reaches, with what they have in `cells` by then.
    """
    n = len(post.starts) - 1
    light = _light(known, k, n)
    for i in range(n):
        cells[REGISTER * i], cells[REGISTER * i + 1] = sum_at(known, i, k), 0.0
    start = target(cells, 0)
    for e in range(letters.starts[k], letters.starts[k + 1]):
        more[0], row = letters.rewards[e], letters.rows[e]
        begin, end = post.reached_from[row], post.reached_from[row + 1]
        if letters.weights[e] > light:
            for r in range(begin, end):
                i = post.reached[np.uint64(r)]
                _put(known, i, k, cells, counted)
                take_in(known, np.uint64(i), np.uint64(k), more[0], letters.weights[e])
                counted[i] += 1
                cells[REGISTER * i], cells[REGISTER * i + 1] = sum_at(known, i, k), 0.0
            continue
        lanes = load(zero(1), address(more, 0), 0)
        for r in range(begin, end):
            place = REGISTER * np.int64(post.reached[np.uint64(r)])
            store(start, place, add(load(lanes, start, place), lanes))
    for i in range(n):
        _put(known, i, k, cells, counted)


@jit_inside
def _put(known: Known, i: int, k: int, cells: FloatArray, counted: IntArray) -> None:
    samples = int(cells[REGISTER * i + 1])
    put_sum(known, i, k, cells[REGISTER * i], samples)
    counted[i] += samples


@jit_inside
def _add_abreast(known: Known, k: int, post: Post, letters: ByArm, counted: IntArray) -> None:
    """The letters of arm k; all others are `counted`."""
    side, n = post.abreast, len(post.starts) - 1
    rewards, sums = np.zeros(len(post.born) + 1), np.zeros(ABREAST * (len(side.starts) - 1))
    for e in range(letters.starts[k], letters.starts[k + 1]):
        rewards[letters.rows[e]] = letters.rewards[e]
    for p in range(n):
        sums[p] = sum_at(known, side.receivers[p], k)
    _sum_abreast(side, rewards, sums)
    for p in range(n):
        i = side.receivers[p]
        put_sum(known, i, k, sums[p], post.starts[i + 1] - post.starts[i] - counted[i])


@jit_inside
def _sum_abreast(side: Abreast, rewards: FloatArray, sums: FloatArray) -> None:
    told, start = address(rewards, 0), target(sums, 0)
    for g in range(len(side.starts) - 1):
        lanes = load(zero(_REGISTERS), start, ABREAST * g)
        for line in range(side.starts[g], side.starts[g + 1]):
            lanes = add(lanes, gather(lanes, told, side.rows, ABREAST * line))
        store(start, ABREAST * g, lanes)
